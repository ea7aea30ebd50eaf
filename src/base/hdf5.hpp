// hdf5.hpp: the HDF5 library with exceptions, used by one thread at a time. Only in builds that have the library.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace weir::hdf5 {

/// Held by every thread while it calls the library, which need not be thread-safe.
inline std::mutex one_at_a_time;

/// Returns what the library reports of the innermost failed call, after a colon.
inline std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned place, const H5E_error2_t* error, void* said) -> herr_t {
        if (place == 0 && error->desc != nullptr) *static_cast<std::string*>(said) = std::string(": ") + error->desc;
        return 0;
      },
      &text);
  return text;
}

/// Throws an error that says what the library cannot do, and why.
[[noreturn]] inline void refuse(std::string_view doing) { fail(WEIR_ERR_FILE, "the HDF5 library cannot {}{}", doing, reason()); }

/// An identifier of the library, closed by the destructor.
class Id {
 public:
  Id(hid_t id, herr_t (*close_with)(hid_t), std::string_view doing) : id_(id), close_(close_with) {
    if (id_ < 0) refuse(doing);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): it is what every call takes
  /// Closes it. Throws if that fails, for example for a file on a full disk.
  void close(std::string_view doing) {
    if (close_(std::exchange(id_, -1)) < 0) refuse(doing);
  }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

inline void check(herr_t result, std::string_view doing) {
  if (result < 0) refuse(doing);
}

/// Keeps the library from printing its error stack while it lives: errors become exceptions.
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

}  // namespace weir::hdf5
