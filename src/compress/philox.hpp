// philox.hpp: random numbers by counter: Philox4x32-7 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC
// 2011, where seven rounds pass all tests). The bits are the same in any order and on any processor. An element gets 16 bits, so
// that random rounding is unbiased to 2^-17 of a level. Its lower 8 bits are another element's higher 8 bits. Each number by itself
// is uniform, which suffices for means and variances of sums of squares. The roundings of two elements are independent except for
// 2^-8 of a level. This costs a quarter of independent numbers of 32 bits.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "codec/packed.hpp"

namespace weir::compress {

/// Number of elements that share 16 blocks of random numbers. Element i uses block i / 256 * 16 + i % 16, of that the word i % 64 /
/// 16, and of that the 16 bits from bit i % 256 / 64 * 8 on, cyclically. Neighbours in a vector register thus have neighbouring
/// blocks.
inline constexpr std::int64_t random_group = 256;

// No arrays: if GPU code reads the host's constant arrays, it traps, and CUDA's compiler does not report it.
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

/// Returns the counter of a block. Counters repeat after 2^32 iterations and streams.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox_counter(const Draw& draw, std::uint64_t block) {
  return {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), static_cast<std::uint32_t>(draw.iteration),
          draw.stream};
}

/// Returns the 16 random bits of an element.
[[nodiscard]] constexpr std::uint32_t random_bits(const Draw& draw, std::uint64_t element) {
  const std::uint64_t group = element / random_group, place = element % random_group;
  const std::uint32_t word = philox(philox_counter(draw, group * 16 + place % 16), draw.seed)[place % 64 / 16];
  return std::rotr(word, static_cast<int>(place / 64 * 8)) & 0xffff;
}

/// Returns a multiple of 2^-16 in [0, 1).
[[nodiscard]] constexpr float uniform_of(std::uint32_t bits) { return static_cast<float>(bits) * 0x1p-16f; }

}  // namespace weir::compress
