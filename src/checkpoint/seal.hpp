// seal.hpp: the last bytes of a checkpoint file: checksums of all that the HDF5 library has written. With the checksums of chunks,
// every byte that is read is known to be as it was written before anybody acts on it; the HDF5 library itself trusts its input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// XXH3, 64 bits.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

/// Writes the seal behind the `bytes` bytes of the file, whose structure is complete.
void seal(const File& file, std::span<const Extent> structure, std::int64_t bytes);
/// Throws Error(WEIR_ERR_FILE) naming the file and what is wrong with it, unless it is a checkpoint whose structure is as it was
/// sealed. Chunks are not looked at. Returns the file's bytes without the seal.
std::int64_t check_seal(const File& file);

}  // namespace weir::checkpoint
