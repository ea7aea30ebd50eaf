// whole_file.hpp: complete checkpoint files, and the seal, which is the last bytes of one. It has the checksum of the file's
// structure: all that the HDF5 library has laid out. With the checksums of chunks, every byte is verified before it is used. This
// matters because the HDF5 library trusts its input.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
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

  /// Makes room for the bytes of all extents, and has read(address, bytes) read those of each.
  template <class Read>
  void read_extents(Read&& read) {
    std::int64_t size = 0;
    for (const Extent& extent : extents) size += extent.bytes;
    bytes.resize(static_cast<std::size_t>(size));
    for_extents(std::span(bytes), read);
  }
  /// Calls write(address, bytes) for each extent.
  template <class Write>
  void write_extents(Write&& write) const {
    for_extents(std::span(bytes), write);
  }

 private:
  template <class Bytes, class One>
  void for_extents(std::span<Bytes> rest, One&& one) const {
    for (const Extent& extent : extents) {
      one(extent.begin, rest.first(static_cast<std::size_t>(extent.bytes)));
      rest = rest.subspan(static_cast<std::size_t>(extent.bytes));
    }
  }
};

/// Returns the size of the seal in bytes of a structure with `extents` extents.
[[nodiscard]] std::int64_t seal_bytes(std::size_t extents);

/// Writes the structure, and the seal at `file_bytes`.
void write_sealed(const File& file, const Structure& structure);
/// Reads the structure of a checkpoint and verifies it against the seal. Does not read chunks. Throws Error(WEIR_ERR_FILE) naming
/// the file and what is wrong with it.
[[nodiscard]] Structure read_sealed(const File& file);

// Complete files, in one process.

/// Returns the file's index after checking its seal. Does not read chunks. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index read_whole(const std::string& path);
/// Reads and checks all chunks of `index`, the index of the file. Calls progressed(bytes read so far) from time to time. Throws
/// Error(WEIR_ERR_FILE) naming the first damaged chunk.
void verify_chunks(const std::string& path, const Index& index, const std::function<void(std::int64_t)>& progressed);

/// Seals a file that another program has copied or repacked, after comparing each chunk with its saved checksum. Returns the index.
/// Does not verify the structure: attributes and small values are sealed as they are now. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index reseal(const std::string& path);

}  // namespace weir::checkpoint
