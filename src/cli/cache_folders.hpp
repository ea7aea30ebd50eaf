// cache_folders.hpp: the subcommands of `weir cache`. They return the status to end with, and throw Error or std::runtime_error
// where they cannot do what they are for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::cli {

/// Which packs go.
struct Pruning {
  std::string data_set;                ///< only its packs; empty: of all
  std::optional<double> days;          ///< only those that were not used for longer
  std::optional<std::uint64_t> bytes;  ///< only as many as it takes until there are no more bytes, of this data set or of all
};

[[nodiscard]] int list_cache(const std::string& folder, const std::string& json);
[[nodiscard]] int prune_cache(const std::string& folder, const Pruning& wanted);
[[nodiscard]] int verify_cache(const std::string& folder, bool remove);

}  // namespace weir::cli
