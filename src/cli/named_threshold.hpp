// named_threshold.hpp: the options --threshold and --threshold-parameters.
#pragma once

#include "cli/command.hpp"

namespace weir::cli {

std::pair<Option, Option> add_threshold(Command& command, std::string& threshold, std::string& parameters);

/// Returns the help of --threshold-parameters: "parameters of the threshold: period of reuse (32), ...".
[[nodiscard]] std::string help_of_threshold_parameters();

}  // namespace weir::cli
