// pack_file.hpp: the files of a data set: its manifest, and packs. A pack has samples one after the other, protected by checksums.
//
//             bytes 8   "weirpack"
//                   8   version, 1
//                   8   fingerprint of the data set
//                   8   number of the pack
//                   8   samples, n
//              n x 16   bytes of each sample, and their XXH3-64
//                   8   XXH3-64 of all bytes above
//                       the samples
//
// Numbers are in the node's byte order. Writing does not wait until a pack is on the disk. After a power cut, a damaged pack fails
// its checksums and is fetched again. This costs less than a sync of every pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datacache/files.hpp"

namespace weir::datacache {

struct DataSet {
  std::string name, identity;
  std::int64_t samples = 0, pack_samples = 0;

  [[nodiscard]] std::int64_t packs() const { return (samples + pack_samples - 1) / pack_samples; }
  /// Returns the number of samples in a pack: pack_samples, or fewer in the last one.
  [[nodiscard]] std::int64_t samples_of(std::int64_t pack) const;
  /// Returns a number that changes with identity, samples or pack_samples.
  [[nodiscard]] std::uint64_t fingerprint() const;
};

/// Returns whether `name` has 1 to 64 letters, digits, '_', '-' and '.', and does not begin with '.'.
[[nodiscard]] bool is_data_set_name(std::string_view name);

struct Manifest {
  DataSet set;  ///< bytes of its identity that are not UTF-8 are replaced
  std::uint64_t fingerprint = 0;
  std::int64_t version = 1;
};
inline constexpr std::int64_t manifest_version = 1;
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* unfinished_manifest_name = ".manifest.json";

/// Reads the manifest of the data set in `folder`. Returns nothing if the manifest is missing or damaged.
[[nodiscard]] std::optional<Manifest> read_manifest(const Descriptor& folder);
/// Returns false on failure: errno has the reason.
[[nodiscard]] bool write_manifest(const Descriptor& folder, const DataSet& set);

/// Samples as read from the store, one after the other.
struct Samples {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> sizes;

  /// Calls see(i, bytes of sample i) for every sample.
  template <class See>
  void for_each(See&& see) const {
    std::span<const std::byte> rest(bytes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto size = static_cast<std::size_t>(sizes[i]);
      see(static_cast<std::int64_t>(i), rest.first(size));
      rest = rest.subspan(size);
    }
  }
  /// Returns the bytes of sample i.
  [[nodiscard]] std::span<const std::byte> part(std::int64_t i) const;
};

/// The beginning of a pack's header, which identifies the pack.
struct PackKey {
  std::uint64_t data_set = 0;
  std::int64_t number = 0, samples = 0;
};

[[nodiscard]] std::int64_t pack_header_bytes(std::int64_t samples);
/// Returns the bytes that precede samples.bytes in the file.
[[nodiscard]] std::vector<std::byte> pack_header(const PackKey& key, const Samples& samples);

/// An open pack.
class PackFile {
 public:
  /// Returns nothing if the file, which has `bytes` bytes, is not that pack, or its header is damaged.
  [[nodiscard]] static std::optional<PackFile> open(Descriptor file, std::int64_t bytes, const PackKey& key);

  /// Reads sample i of the pack. Returns false, with an empty `sample`, if it is damaged.
  [[nodiscard]] bool read(std::int64_t i, std::vector<std::byte>& sample) const;
  /// Reads all samples. Returns false if one is damaged.
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
