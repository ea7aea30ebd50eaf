// pack_file.hpp: a pack: samples one after the other, under checksums.
//
//             bytes 8   "weirpack"
//                   8   version, 1
//                   8   fingerprint of the data set
//                   8   number of the pack
//                   8   samples, n
//              n x 16   bytes of a sample, XXH3-64 of them
//                   8   XXH3-64 of all before
//                       the samples
//
// Numbers are in the node's byte order. Nothing waits until a pack is on the disk: what a power cut leaves of one that had its name
// already fails its checksums, and is fetched anew, which costs less than a sync of every pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "datacache/files.hpp"

namespace weir::datacache {

/// Samples as read from the store: one after the other.
struct Samples {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> sizes;
};

/// Which pack it is.
struct PackKey {
  std::uint64_t data_set = 0;
  std::int64_t number = 0, samples = 0;
};

[[nodiscard]] std::int64_t pack_header_bytes(std::int64_t samples);
/// What stands before samples.bytes.
[[nodiscard]] std::vector<std::byte> pack_header(const PackKey& key, const Samples& samples);

/// An open pack.
class PackFile {
 public:
  /// Nothing where the file, `bytes` long, is not that pack, or its header is damaged.
  [[nodiscard]] static std::optional<PackFile> open(Descriptor file, std::int64_t bytes, const PackKey& key);

  /// Sample i of the pack. False where it is damaged; `sample` is empty then.
  [[nodiscard]] bool read(std::int64_t i, std::vector<std::byte>& sample) const;
  /// False where one is damaged.
  [[nodiscard]] bool read_all(Samples& samples) const;
  [[nodiscard]] const Descriptor& file() const { return file_; }

 private:
  struct Entry {
    std::int64_t bytes;
    std::uint64_t checksum;
  };

  Descriptor file_;
  std::vector<Entry> entries_;
};

}  // namespace weir::datacache
