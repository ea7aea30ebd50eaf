// level_scale.hpp: what a bucket's number means where elements are levels of it, on the host and on GPUs.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace weir::compress {

/// Between values and levels 0, ..., s of them.
struct LevelScale {
  float per_value = 0;  ///< levels
  float per_level = 0;  ///< value

  [[nodiscard]] constexpr bool blank() const { return per_value == 0; }
};

/// Returns the scale of a bucket whose largest level means `whole`. If `whole` is not finite, all of the bucket decodes to NaN; if
/// it is so small that levels could not be told apart, to zero.
[[nodiscard]] constexpr LevelScale level_scale(float whole, int levels) {
  constexpr float smallest = 0x1p-100f;  // 2^16 levels / whole and whole / levels are normal numbers
  if (!(whole >= smallest)) return {0, whole != whole ? whole : 0};
  if (whole > std::numeric_limits<float>::max()) return {0, std::bit_cast<float>(std::uint32_t{0x7fc00000})};
  return {static_cast<float>(levels) / whole, whole / static_cast<float>(levels)};
}

}  // namespace weir::compress
