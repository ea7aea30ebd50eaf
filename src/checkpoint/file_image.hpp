// file_image.hpp: a file in memory, most of which is never written: where the HDF5 library lays out a checkpoint. It writes no file
// itself: it does not get over a disk that is full.
#pragma once

#include <hdf5.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace weir::checkpoint {

class FileImage {
 public:
  /// Bytes that were never written are zero.
  void read(std::int64_t address, std::span<std::byte> to) const;
  void write(std::int64_t address, std::span<const std::byte> from);
  /// While true, nothing that is written is kept.
  void forget_writes(bool forget) { forgets_ = forget; }

  /// An access list for H5Fcreate and H5Fopen, whose file this is; it outlives the file. To be closed.
  [[nodiscard]] hid_t access_list();

  std::int64_t allocated = 0;  ///< bytes that the library has taken
  std::int64_t written = 0;    ///< end of what was written

 private:
  static constexpr std::int64_t page_bytes = std::int64_t{1} << 16;
  using Page = std::array<std::byte, page_bytes>;
  std::map<std::int64_t, std::unique_ptr<Page>> pages_;
  bool forgets_ = false;
};

}  // namespace weir::checkpoint
