// network.hpp: a network described by two figures instead of measurements.
#pragma once

#include <string>

#include "model/machine.hpp"

namespace weir::cli {

/// Parses for example "25Gbit,5us" as the link between nodes: what a node can send in each direction, and the one-way time of a
/// message of a few bytes. Throws std::runtime_error saying what would be valid.
[[nodiscard]] Link parse_network(const std::string& text);

}  // namespace weir::cli
