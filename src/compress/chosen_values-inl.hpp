// chosen_values-inl.hpp: codes for the values that a compressor has chosen; compiled once per instruction set, as Highway's
// foreach_target.h asks.
#if defined(WEIR_COMPRESS_CHOSEN_VALUES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_CHOSEN_VALUES_INL
#undef WEIR_COMPRESS_CHOSEN_VALUES_INL
#else
#define WEIR_COMPRESS_CHOSEN_VALUES_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compress/quantiser-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

/// Writes codes of equally wide bins over six standard deviations about the mean, the outer ones open. codebook[j] is the mean of
/// the values in bin j, or 0 if the bin has no values. If a value is not finite, all codes are 0 and the codebook is NaN.
HWY_INLINE void code_by_bins(const float* HWY_RESTRICT x, std::int64_t count, int bits, float* HWY_RESTRICT codebook,
                             std::uint8_t* HWY_RESTRICT codes) {
  const int bins = 1 << bits;
  const double n = static_cast<double>(count);
  const double mean = sum_of(x, count, [](auto, auto v) HWY_ATTR { return v; }) / n;
  if (!std::isfinite(mean)) {
    std::fill_n(codebook, bins, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(codes, count, std::uint8_t{0});
    return;
  }
  const double squares = sum_of(x, count, [mean](auto d, auto v) HWY_ATTR {
    const auto centred = hn::Sub(v, hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  const double width = 6 * std::sqrt(squares / n) / bins;
  const double per_value = width > 0 ? 1 / width : 0;
  double sums[256] = {};
  std::int64_t members[256] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    // first clamped above zero, so that cutting off the fraction rounds down
    const double place = (static_cast<double>(x[i]) - mean) * per_value + bins / 2;
    const auto code = static_cast<int>(std::min(std::max(place, 0.0), bins - 0.5));
    codes[i] = static_cast<std::uint8_t>(code);
    sums[code] += static_cast<double>(x[i]);
    ++members[code];
  }
  for (int j = 0; j < bins; ++j)
    codebook[j] = members[j] > 0 ? static_cast<float>(sums[j] / static_cast<double>(members[j])) : 0.0f;
}

/// Writes codes 0 to 254 for -largest to largest. decode_by_scale returns their values.
HWY_INLINE void code_by_scale(const float* HWY_RESTRICT x, std::int64_t count, float largest, std::uint8_t* HWY_RESTRICT codes) {
  const LevelScale scale = level_scale(largest, 127);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = scale.per_value > 0 ? static_cast<std::uint8_t>(std::lrint(x[i] * scale.per_value) + 127) : std::uint8_t{127};
}

HWY_INLINE void decode_by_scale(const std::uint8_t* HWY_RESTRICT codes, std::int64_t count, float largest,
                                float* HWY_RESTRICT values) {
  const LevelScale scale = level_scale(largest, 127);
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(codes[i] - 127) * scale.per_level;
}

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
