// manifest.hpp: the manifest, which says which data set a folder's packs belong to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace weir::datacache
