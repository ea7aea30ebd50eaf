// seal.hpp: the last bytes of a checkpoint file: the checksum of its structure, which is all that the HDF5 library has laid out.
// With the checksums of chunks, every byte that is read is known to be as it was written before anybody acts on it; the HDF5
// library itself trusts its input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// XXH3, 64 bits.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

/// Everything of a file but its chunks and its seal.
struct Structure {
  std::int64_t file_bytes = 0;     ///< without the seal
  std::vector<Extent> extents{};   ///< ascending
  std::vector<std::byte> bytes{};  ///< of all extents, one behind the other
};

/// Returns the size of a seal in bytes. `extents`: how many the sealed structure has.
[[nodiscard]] std::int64_t seal_bytes(std::size_t extents);

/// Writes the structure, and the seal behind `file_bytes`.
void write_sealed(const File& file, const Structure& structure);
/// Throws Error(WEIR_ERR_FILE) naming the file and what is wrong with it, unless it is a checkpoint whose structure is as it was
/// sealed. Chunks are not looked at.
[[nodiscard]] Structure read_sealed(const File& file);

}  // namespace weir::checkpoint
