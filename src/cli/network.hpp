// network.hpp: a network that nobody has measured, in two figures.
#pragma once

#include <string>

#include "model/machine.hpp"

namespace weir::cli {

/// The link between nodes that "25Gbit,5us" means: what a node can send in each direction, and how long a message of a few bytes
/// takes one way. Throws std::runtime_error saying what would be right.
[[nodiscard]] Link parse_network(const std::string& text);

}  // namespace weir::cli
