// summary.hpp: compares several finished runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace language_model {

/// Merges the runs' <name>.json in the folder into summary.json and prints them as a table on stdout. Without `names` it takes all
/// runs of the folder. Returns whether perplexities at the last common step are within 1 % of each other. Throws
/// std::runtime_error if there are no runs, or if they cannot be compared.
bool summarise(const std::filesystem::path& folder, std::vector<std::string> names = {});

}  // namespace language_model
