// named_threshold.hpp: --threshold and --threshold-parameters of a command.
#pragma once

#include <string>

#include "cli/command.hpp"

namespace weir::cli {

void add_threshold(Command& command, std::string& threshold, std::string& parameters);

}  // namespace weir::cli
