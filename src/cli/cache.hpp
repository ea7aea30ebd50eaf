// cache.hpp: the subcommands of `weir cache`. They return the exit status, and throw Error or std::runtime_error if they fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::cli {

/// Which packs to remove.
struct Pruning {
  std::string data_set;                ///< only packs of this data set; empty: of all
  std::optional<double> days;          ///< only packs unused for longer
  std::optional<std::uint64_t> bytes;  ///< only until the packs, of this data set or of all, have no more bytes than this
};
[[nodiscard]] int list_cache(const std::string& folder, const std::string& json);
[[nodiscard]] int prune_cache(const std::string& folder, const Pruning& wanted);
[[nodiscard]] int verify_cache(const std::string& folder, bool remove);

struct DataToCheck {
  std::string path;  ///< a folder of JPEG files, or a file
  std::string dataset, labels;
  int threads = 0;  ///< 0: one for each core
};
/// Checks that every sample of a data set can be read.
[[nodiscard]] int check_data(const DataToCheck& data);

}  // namespace weir::cli
