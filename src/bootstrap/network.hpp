// network.hpp: how MPI is to use plain TCP, where Weir starts it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::bootstrap {

/// Returns whether this host has a network card that MPI uses without TCP: InfiniBand, RoCE, Omni-Path and EFA, or Slingshot.
[[nodiscard]] bool has_fast_network();

/// Returns the environment variables, with their values, by which the MPI of this MPI_Get_library_version sends fastest over TCP.
/// `connections`: how many connections a pair of ranks has.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> variables_for_tcp(std::string_view library_version, int connections);

}  // namespace weir::bootstrap
