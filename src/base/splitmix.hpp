// splitmix.hpp: reproducible noise: maps every number to one that looks random.
#pragma once

#include <cstdint>

namespace weir {

/// Returns one step of SplitMix64 (Steele, Lea and Flood, 2014) from state `x`.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace weir
