// Several finished runs, side by side.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace language_model {

/// Merges the schemes' <scheme>.json in the folder into summary.json and prints them as a table on stdout. Returns whether they
/// have trained alike: perplexities at the last step that all have reached are within 1 % of each other. No names: all that the
/// folder holds. Throws std::runtime_error when it holds none, or runs that cannot be compared.
bool summarise(const std::filesystem::path& folder, std::vector<std::string> names = {});

}  // namespace language_model
