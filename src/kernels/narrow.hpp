// narrow.hpp: the 16-bit floating-point types of gradients in device memory. Storage only: arithmetic is float's.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace weir {

/// IEEE 754 binary16.
struct float16 {
  std::uint16_t bits;
};

/// The upper half of a float.
struct bfloat16 {
  std::uint16_t bits;
};

/// Converts exactly.
[[nodiscard]] constexpr float widen(bfloat16 x) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

[[nodiscard]] constexpr float widen(float16 x) noexcept {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = (x.bits & 0x7fffu) << 13;
  // Exponents are biased by 127 and by 15. Numbers below float16's normal ones are multiples of 2^-24.
  const std::uint32_t finite = magnitude < 1u << 23 ? std::bit_cast<std::uint32_t>(static_cast<float>(x.bits & 0x7fffu) * 0x1p-24f)
                                                    : magnitude + (112u << 23);
  return std::bit_cast<float>(sign | (magnitude < 31u << 23 ? finite : magnitude + (224u << 23)));
}
[[nodiscard]] constexpr float widen(float x) noexcept { return x; }
[[nodiscard]] constexpr double widen(double x) noexcept { return x; }

/// Rounds to nearest, ties to even. NaN becomes the quiet NaN. A number beyond the largest finite one becomes infinity, as in IEEE
/// 754, or that number if `saturate`.
template <class G, bool saturate = false, class T>
[[nodiscard]] constexpr G narrow_to(T x) noexcept {
  if constexpr (std::is_same_v<G, T>) {
    return x;
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    constexpr bool half = std::is_same_v<G, float16>;
    constexpr int shift = half ? 13 : 16;
    constexpr std::uint32_t rebias = half ? 112u << 23 : 0u, infinity = half ? 0x7c00u : 0x7f80u, quiet = half ? 0x7e00u : 0x7fc0u;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
      result = quiet;
    } else if (half && magnitude < 113u << 23) {
      // The unit in the last place of 0.5 is the smallest float16, so the addition rounds to multiples of it.
      result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
    } else {
      result = (magnitude - rebias + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1)) >> shift;
      constexpr std::uint32_t largest = saturate ? infinity - 1 : infinity;
      if (magnitude < 0x7f800000u && result > largest) result = largest;
      if (magnitude == 0x7f800000u) result = infinity;
    }
    return G{static_cast<std::uint16_t>(sign | result)};
  }
}

/// Returns x * scale, or x for NaN: a GPU's product of NaN has other bits than a processor's.
[[nodiscard]] constexpr float scaled(float x, float scale) noexcept {
  return std::bit_cast<std::uint32_t>(x) << 1 > 0xff000000u ? x : x * scale;
}

}  // namespace weir
