// seal.hpp: the seal, which is the last bytes of a checkpoint file. It has the checksum of the file's structure: all that the HDF5
// library has laid out. With the checksums of chunks, every byte is verified before it is used. This matters because the HDF5
// library trusts its input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// Returns the XXH3 checksum (64 bits).
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

/// All bytes of a file except its chunks and its seal.
struct Structure {
  std::int64_t file_bytes = 0;     ///< without the seal
  std::vector<Extent> extents{};   ///< ascending
  std::vector<std::byte> bytes{};  ///< of all extents, one after the other
};

/// Returns the size of the seal in bytes of a structure with `extents` extents.
[[nodiscard]] std::int64_t seal_bytes(std::size_t extents);

/// Writes the structure, and the seal at `file_bytes`.
void write_sealed(const File& file, const Structure& structure);
/// Reads the structure of a checkpoint and verifies it against the seal. Does not read chunks. Throws Error(WEIR_ERR_FILE) naming
/// the file and what is wrong with it.
[[nodiscard]] Structure read_sealed(const File& file);

}  // namespace weir::checkpoint
