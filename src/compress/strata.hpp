// strata.hpp: k random places among n, one in each of k ranges of nearly the same size. All places differ and ascend. Every element
// is equally likely if k divides n. Element i of range j has probability 1 / size(j).
#pragma once

#include <array>
#include <cstdint>

#include "compress/philox.hpp"

namespace weir::compress {

/// Requires k <= n <= 2^32.
struct Strata {
  std::int64_t n = 0, k = 0;

  /// Returns where stratum `i` of 0, ..., k begins: floor(i n / k). begin(k) is n.
  [[nodiscard]] constexpr std::int64_t begin(std::int64_t i) const {
    // i n may be 2^64
    const auto whole = static_cast<std::uint64_t>(n / k), left = static_cast<std::uint64_t>(n % k);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) * whole +
                                     static_cast<std::uint64_t>(i) * left / static_cast<std::uint64_t>(k));
  }
  [[nodiscard]] constexpr std::int64_t size(std::int64_t i) const { return begin(i + 1) - begin(i); }
};

/// Number of strata that share a block of random numbers.
inline constexpr std::int64_t strata_per_block = 4;

/// Returns place `i` of k. Each place of a stratum of s elements has probability 1 / s to within 2^-32.
[[nodiscard]] constexpr std::int64_t stratum_place(const Strata& strata, std::int64_t i, std::uint32_t random) {
  const std::int64_t begin = strata.begin(i);
  return begin + static_cast<std::int64_t>(static_cast<std::uint64_t>(strata.begin(i + 1) - begin) * random >> 32);
}
[[nodiscard]] constexpr std::int64_t stratum_place(const Strata& strata, const Draw& draw, std::int64_t i) {
  const auto block = philox(philox_counter(draw, static_cast<std::uint64_t>(i / strata_per_block)), draw.seed);
  return stratum_place(strata, i, block[static_cast<std::size_t>(i % strata_per_block)]);
}

/// Writes all k places.
constexpr void stratum_places(const Strata& strata, const Draw& draw, std::uint32_t* places) {
  for (std::int64_t i = 0; i < strata.k; i += strata_per_block) {
    const auto block = philox(philox_counter(draw, static_cast<std::uint64_t>(i / strata_per_block)), draw.seed);
    for (std::int64_t j = i; j < strata.k && j < i + strata_per_block; ++j)
      places[j] = static_cast<std::uint32_t>(stratum_place(strata, j, block[static_cast<std::size_t>(j - i)]));
  }
}

}  // namespace weir::compress
