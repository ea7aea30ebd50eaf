// named_threshold.hpp: --threshold and --threshold-parameters of a command.
#pragma once

#include <string>
#include <utility>

#include "cli/command.hpp"

namespace weir::cli {

std::pair<Option, Option> add_threshold(Command& command, std::string& threshold, std::string& parameters);

/// Returns what --threshold-parameters means: "parameters of the threshold: period of reuse (32), ...".
[[nodiscard]] std::string help_of_threshold_parameters();

}  // namespace weir::cli
