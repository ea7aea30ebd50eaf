// lane_orders.hpp: how to move chosen lanes of a vector of at most eight to the front.
#pragma once

#include <array>
#include <cstdint>

namespace weir::kernels::host {

/// For each set of lanes, those lanes and then the others, four bits each, the first lane lowest.
inline constexpr std::array<std::uint32_t, 256> lane_orders = [] {
  std::array<std::uint32_t, 256> orders{};
  for (std::uint32_t set = 0; set < 256; ++set) {
    int position = 0;
    for (const std::uint32_t chosen : {1u, 0u}) {
      for (std::uint32_t lane = 0; lane < 8; ++lane) {
        if ((set >> lane & 1u) == chosen) orders[set] |= lane << 4 * position++;
      }
    }
  }
  return orders;
}();

}  // namespace weir::kernels::host
