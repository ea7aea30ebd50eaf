// hdf5_library.hpp: the HDF5 library with exceptions, one thread at a time; and names that a checkpoint's files have.
#pragma once

#include <hdf5.h>

#include <array>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/file_image.hpp"

namespace weir::checkpoint::hdf5 {

inline constexpr const char* schema_name = "weir_checkpoint_schema";
/// By Share.
inline constexpr std::array share_names = {"each", "agreed", "layout", "summed", "block", "cuts"};

/// The library need not be made for threads; nor do virtual ranks of one process share a rank.
inline std::mutex one_at_a_time;

/// An identifier of the library, closed at its end.
class Id {
 public:
  Id(hid_t id, herr_t (*close_with)(hid_t), std::string_view doing) : id_(id), close_(close_with) {
    if (id_ < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): it is what every call takes
  /// Throws where closing fails, as that of a file does on a full disk.
  void close(std::string_view doing) {
    if (close_(std::exchange(id_, -1)) < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
  }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

inline void check(herr_t result, std::string_view doing) {
  if (result < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
}

/// Errors are told by exceptions: the library does not print its stack meanwhile.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// For H5Fcreate and H5Fopen. Files are for versions from 1.10 on.
[[nodiscard]] inline Id access_list(FileImage& image) {
  constexpr hsize_t alignment = 4096;
  Id access(image.access_list(), H5Pclose, "make a list");
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access, alignment, alignment);
  return access;
}

}  // namespace weir::checkpoint::hdf5
