// philox.hpp: random numbers by counter: Philox4x32-7 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
// SC 2011, where seven rounds pass all tests). The same bits in any order, on any processor. An element gets 16 of them, so that
// rounding at random is unbiased to 2^-17 of a level. Of these, the lower 8 are another element's higher 8: each number by itself
// is uniform, which is all that means and variances of sums of squares ask for, and two elements' roundings are independent but
// for 2^-8 of a level. So they cost a quarter of independent numbers of 32 bits.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "codec/packed.hpp"

namespace weir::compress {

/// Elements that share 16 blocks of random numbers: element i has of block i / 256 * 16 + i % 16 the word i % 64 / 16, of that the
/// 16 bits from bit i % 256 / 64 * 8 on, around its end. Neighbours in a vector register so have neighbouring blocks.
inline constexpr std::int64_t random_group = 256;

// No arrays: in GPU code, CUDA's compiler traps where the host's constant arrays are read, and does not say so.
inline constexpr std::uint32_t philox_multiplier_a = 0xD2511F53u, philox_multiplier_b = 0xCD9E8D57u;
inline constexpr std::uint32_t philox_step_low = 0x9E3779B9u, philox_step_high = 0xBB67AE85u;
inline constexpr int philox_rounds = 7;

[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key,
                                                            int rounds = philox_rounds) {
  auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = std::uint64_t{philox_multiplier_a} * counter[0], b = std::uint64_t{philox_multiplier_b} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += philox_step_low;
    high += philox_step_high;
  }
  return counter;
}

/// The counter of a block: 2^32 iterations and streams before anything comes again.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox_counter(const Draw& draw, std::uint64_t block) {
  return {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), static_cast<std::uint32_t>(draw.iteration),
          draw.stream};
}

/// The 16 random bits of an element.
[[nodiscard]] constexpr std::uint32_t random_bits(const Draw& draw, std::uint64_t element) {
  const std::uint64_t group = element / random_group, place = element % random_group;
  const std::uint32_t word = philox(philox_counter(draw, group * 16 + place % 16), draw.seed)[place % 64 / 16];
  return std::rotr(word, static_cast<int>(place / 64 * 8)) & 0xffff;
}

/// In [0, 1), a multiple of 2^-16.
[[nodiscard]] constexpr float uniform_of(std::uint32_t bits) { return static_cast<float>(bits) * 0x1p-16f; }

}  // namespace weir::compress
