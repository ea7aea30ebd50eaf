// file_image.hpp: a sparse file in memory, in which the HDF5 library lays out a checkpoint, and names that such a file has. The
// library writes no file itself, because it does not recover from a full disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/hdf5.hpp"

namespace weir::checkpoint {

inline constexpr const char* schema_name = "weir_checkpoint_schema";

class FileImage {
 public:
  /// Reads bytes. Those never written are zero.
  void read(std::int64_t address, std::span<std::byte> to) const;
  void write(std::int64_t address, std::span<const std::byte> from);
  /// While true, writes are discarded.
  void forget_writes(bool forget) { forgets_ = forget; }

  /// Returns an access list for H5Fcreate and H5Fopen that makes this image the file. The image must outlive the file. Files need
  /// version 1.10 or later of the library.
  [[nodiscard]] hdf5::Id access_list();

  std::int64_t allocated = 0;  ///< bytes that the library has allocated
  std::int64_t written = 0;    ///< end of the bytes written

 private:
  static constexpr std::int64_t page_bytes = std::int64_t{1} << 16;
  using Page = std::array<std::byte, page_bytes>;
  std::map<std::int64_t, std::unique_ptr<Page>> pages_;
  bool forgets_ = false;
};

}  // namespace weir::checkpoint
