// level_scale.hpp: the scale of a bucket whose elements are coded as levels of one number, on the host and on GPUs.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace weir::compress {

/// Converts between values and levels 0, ..., s.
struct LevelScale {
  float per_value = 0;  ///< levels per value
  float per_level = 0;  ///< value per level

  [[nodiscard]] constexpr bool blank() const { return per_value == 0; }
};

/// Returns the scale of a bucket whose largest level stands for `whole`. If `whole` is not finite, all of the bucket decodes to
/// NaN. If it is too small to distinguish levels, the bucket decodes to zero.
[[nodiscard]] constexpr LevelScale level_scale(float whole, int levels) {
  constexpr float smallest = 0x1p-100f;  // from here on 2^16 levels / whole and whole / levels are normal numbers
  if (!(whole >= smallest)) return {0, whole != whole ? whole : 0};
  if (whole > std::numeric_limits<float>::max()) return {0, std::bit_cast<float>(std::uint32_t{0x7fc00000})};
  return {static_cast<float>(levels) / whole, whole / static_cast<float>(levels)};
}

}  // namespace weir::compress
