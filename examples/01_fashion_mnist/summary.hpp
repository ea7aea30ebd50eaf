// summary.hpp: compares several finished runs.
#pragma once

#include <filesystem>

namespace fashion_mnist {

/// Merges every <algorithm>.json of the folder into summary.json, keyed by algorithm, and prints them as a table on
/// stdout. Throws std::runtime_error if the folder holds no run.
void summarise(const std::filesystem::path& folder);

}  // namespace fashion_mnist
