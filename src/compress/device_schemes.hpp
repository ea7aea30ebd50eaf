// device_schemes.hpp: the quantisers of quantiser-inl.hpp for one element at a time, for kernels for CUDA memory. The messages are
// the same, bit for bit, if no operations are fused. A Scheme here has:
//
//   static constexpr bool random, votes; static constexpr int headers;   // as there
//   static constexpr Measure measure;                                    // what a bucket's header is computed from
//   int bits() const;
//   void header(const Sums&, std::int64_t count, float* header) const;   // not if `measure` is nothing or largest
//   Scale scale(const float* header) const;
//   int encode(Scale, float x, std::uint32_t random) const; float decode(Scale, int code) const;
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>

#include "compress/code_bits.hpp"
#include "compress/dynamic_tree.hpp"
#include "compress/level_scale.hpp"

namespace weir::compress {

/// What is measured of a bucket. largest: the header is the largest magnitude.
enum class Measure : std::uint8_t { nothing, largest, squares, magnitudes, sides };

/// The measurements of a bucket. Sums are in the order of sum_of().
struct Sums {
  double sum = 0;              ///< of squares or magnitudes; for sides: of the elements that are not negative
  double negative = 0;         ///< sum of the negative elements
  std::int64_t negatives = 0;  ///< number of negative elements
  std::uint32_t largest = 0;   ///< largest key
};

namespace device {

[[nodiscard]] constexpr std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
[[nodiscard]] constexpr float magnitude_of(float x) { return std::bit_cast<float>(bits_of(x) & 0x7fffffffu); }

/// Rounds to the nearest whole number, ties to even; |x| < 2^22.
[[nodiscard]] constexpr int nearest(float x) {
  constexpr float shift = 0x1.8p23f;
  return static_cast<int>(bits_of(x + shift)) - static_cast<int>(bits_of(shift));
}

/// Returns 1 for negative numbers. -0 is not negative; NaN counts by its sign bit.
[[nodiscard]] constexpr int is_negative(float x) { return bits_of(x) > 0x80000000u ? 1 : 0; }

/// Returns the mean, 0 if `count` is 0, or NaN if the mean is not finite.
[[nodiscard]] constexpr float mean_of(double sum, std::int64_t count) {
  const float mean = count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
  return bits_of(magnitude_of(mean)) < 0x7f800000u ? mean : std::bit_cast<float>(std::uint32_t{0x7fc00000});
}

}  // namespace device

/// The scheme of block_quantise with whole numbers.
struct DeviceIntegers {
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  static constexpr Measure measure = Measure::largest;
  using Scale = LevelScale;

  int levels;

  [[nodiscard]] constexpr int bits() const { return bits_for(2 * levels); }
  [[nodiscard]] constexpr Scale scale(const float* header) const { return level_scale(header[0], levels); }
  [[nodiscard]] constexpr int encode(Scale scale, float x, std::uint32_t) const {
    return device::nearest(x * scale.per_value) + levels;
  }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const { return static_cast<float>(code - levels) * scale.per_level; }
};

/// The scheme of block_quantise with E4M3.
struct DeviceFloat8 {
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  static constexpr Measure measure = Measure::largest;
  using Scale = LevelScale;

  [[nodiscard]] static constexpr int bits() { return 8; }
  [[nodiscard]] constexpr Scale scale(const float* header) const { return level_scale(header[0], 448); }
  [[nodiscard]] constexpr int encode(Scale scale, float x, std::uint32_t) const {
    const float product = device::magnitude_of(x) * scale.per_value, magnitude = product < 448.0f ? product : 448.0f;
    const std::uint32_t key = device::bits_of(magnitude), sign = device::bits_of(x) >> 24 & 0x80;
    if (key < 121u << 23) return static_cast<int>(sign) | device::nearest(magnitude * 512.0f);  // below 2^-6
    const std::uint32_t rounded = (key + (key >> 20 & 1) + (1u << 19) - 1) >> 20;
    return static_cast<int>(sign | (rounded - (120u << 3)));
  }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const {
    const auto bits = static_cast<std::uint32_t>(code) & 0x7f, sign = (static_cast<std::uint32_t>(code) & 0x80) << 24;
    const float magnitude = bits < 8 ? static_cast<float>(bits) * 0x1p-9f : std::bit_cast<float>((bits << 20) + (120u << 23));
    return std::bit_cast<float>(device::bits_of(magnitude) | sign) * scale.per_level;
  }
};

/// The scheme of sign_sgd and signum.
struct DeviceSigns {
  static constexpr int headers = 0;
  static constexpr bool random = false, votes = true;
  static constexpr Measure measure = Measure::nothing;
  struct Scale {
    [[nodiscard]] static constexpr bool blank() { return false; }
  };

  [[nodiscard]] static constexpr int bits() { return 1; }
  [[nodiscard]] constexpr Scale scale(const float*) const { return {}; }
  [[nodiscard]] constexpr int encode(Scale, float x, std::uint32_t) const { return device::is_negative(x); }
  [[nodiscard]] constexpr float decode(Scale, int code) const { return 1.0f - static_cast<float>(2 * code); }
};

/// The scheme of ef_sign_sgd.
struct DeviceScaledSigns {
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  static constexpr Measure measure = Measure::magnitudes;
  struct Scale {
    float magnitude = 0;
    [[nodiscard]] constexpr bool blank() const { return !(magnitude > 0); }
  };

  [[nodiscard]] static constexpr int bits() { return 1; }
  constexpr void header(const Sums& sums, std::int64_t count, float* header) const { *header = device::mean_of(sums.sum, count); }
  [[nodiscard]] constexpr Scale scale(const float* header) const {
    const float magnitude = device::magnitude_of(header[0]);
    return {device::bits_of(magnitude) < 0x7f800000u ? magnitude : std::bit_cast<float>(std::uint32_t{0x7fc00000})};
  }
  [[nodiscard]] constexpr int encode(Scale, float x, std::uint32_t) const { return device::is_negative(x); }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const {
    return std::bit_cast<float>(device::bits_of(scale.magnitude) | static_cast<std::uint32_t>(code) << 31);
  }
};

/// The scheme of qsgd, by the Euclidean norm, and of terngrad, by the largest magnitude, clipped at `clip` deviations if squares
/// are measured.
template <Measure from, bool clips>
struct DeviceRandomLevels {
  static constexpr int headers = 1;
  static constexpr bool random = true, votes = false;
  static constexpr Measure measure = from;
  using Scale = LevelScale;

  int levels;
  double clip = 0;

  [[nodiscard]] constexpr int bits() const { return bits_for(2 * levels); }
  constexpr void header(const Sums& sums, std::int64_t count, float* header) const {
    if constexpr (clips) {
      const float largest = std::bit_cast<float>(sums.largest);
      const double bound = clip * std::sqrt(sums.sum / static_cast<double>(count));
      *header = sums.largest < 0x7f800000u && bound < static_cast<double>(largest) ? static_cast<float>(bound) : largest;
    } else {
      constexpr float most = std::numeric_limits<float>::max();
      const double norm = std::sqrt(sums.sum);
      const bool overflows = norm > static_cast<double>(most) && norm <= std::numeric_limits<double>::max();
      *header = overflows ? most : norm == norm ? static_cast<float>(norm) : std::bit_cast<float>(std::uint32_t{0x7fc00000});
    }
  }
  [[nodiscard]] constexpr Scale scale(const float* header) const { return level_scale(header[0], levels); }
  [[nodiscard]] constexpr int encode(Scale scale, float x, std::uint32_t random_bits) const {
    float exact = device::magnitude_of(x) * (scale.per_value * 0x1p16f);
    if constexpr (clips) exact = exact < static_cast<float>(levels) * 0x1p16f ? exact : static_cast<float>(levels) * 0x1p16f;
    const int rounded = (static_cast<int>(exact) + static_cast<int>(random_bits)) >> 16;
    const int level = rounded < levels ? rounded : levels;
    return (device::bits_of(x) >> 31 != 0 ? -level : level) + levels;
  }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const { return static_cast<float>(code - levels) * scale.per_level; }
};

/// The scheme of one_bit_sgd.
struct DeviceSideMeans {
  static constexpr int headers = 2;
  static constexpr bool random = false, votes = false;
  static constexpr Measure measure = Measure::sides;
  struct Scale {
    float positive = 0, negative = 0;
    [[nodiscard]] static constexpr bool blank() { return false; }
  };

  [[nodiscard]] static constexpr int bits() { return 1; }
  constexpr void header(const Sums& sums, std::int64_t count, float* header) const {
    header[0] = device::mean_of(sums.sum, count - sums.negatives);
    header[1] = device::mean_of(sums.negative, sums.negatives);
  }
  [[nodiscard]] constexpr Scale scale(const float* header) const { return {header[0], header[1]}; }
  [[nodiscard]] constexpr int encode(Scale, float x, std::uint32_t) const { return x < 0 ? 1 : 0; }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const { return code != 0 ? scale.negative : scale.positive; }
};

/// The scheme of eight_bit.
struct DeviceDynamicTree {
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  static constexpr Measure measure = Measure::largest;
  using Scale = LevelScale;

  DynamicTreeTables tables = dynamic_tree_tables();

  [[nodiscard]] static constexpr int bits() { return 8; }
  [[nodiscard]] constexpr Scale scale(const float* header) const { return level_scale(header[0], 1); }
  [[nodiscard]] constexpr int encode(Scale scale, float x, std::uint32_t) const {
    const float magnitude = device::magnitude_of(x) * scale.per_value;
    float per_value = tables.none;
    for (int z = dynamic_tree_decades - 1; z >= 0; --z) per_value = magnitude >= tables.above[z] ? tables.per_value[z] : per_value;
    const auto at = dynamic_tree_slot(per_value);
    float place = magnitude * per_value + tables.offset[at];
    place = place > tables.first[at] ? place : tables.first[at];
    place = place < tables.last[at] ? place : tables.last[at];
    return static_cast<int>(static_cast<std::uint32_t>(static_cast<int>(place)) | (device::bits_of(x) >> 24 & 0x80));
  }
  [[nodiscard]] constexpr float decode(Scale scale, int code) const {
    const float middle = static_cast<float>(code & 0x7f) + 0.5f;
    const float mantissa = std::bit_cast<float>((device::bits_of(middle) & 0x7fffffu) | 127u << 23);
    const float value = tables.power[dynamic_tree_slot(middle)] * (mantissa * 0.9f - 0.8f) * scale.per_level;
    return std::bit_cast<float>(device::bits_of(value) ^ (static_cast<std::uint32_t>(code) & 0x80) << 24);
  }
};

/// The scheme of natural: an exponent, with a sign above it.
struct DeviceNatural {
  static constexpr int headers = 0;
  static constexpr bool random = true, votes = false;
  static constexpr Measure measure = Measure::nothing;
  struct Scale {
    [[nodiscard]] static constexpr bool blank() { return false; }
  };

  [[nodiscard]] static constexpr int bits() { return 9; }
  [[nodiscard]] constexpr Scale scale(const float*) const { return {}; }
  [[nodiscard]] constexpr int encode(Scale, float x, std::uint32_t random_bits) const {
    const std::uint32_t key = device::bits_of(x) & 0x7fffffffu, sign = device::bits_of(x) >> 31;
    const std::uint32_t rounded = key < 254u << 23 ? key + (random_bits << 7) + 64 : key;
    return static_cast<int>(rounded >> 23 | sign << 8);
  }
  [[nodiscard]] constexpr float decode(Scale, int code) const {
    const auto bits = static_cast<std::uint32_t>(code), exponent = bits & 0xff;
    return std::bit_cast<float>((exponent == 255 ? 0x7fc00000u : exponent << 23) | (bits >> 8 & 1) << 31);
  }
};

/// A row's quantiser in CUDA memory: its Scheme, and the elements that share a header; 0: all.
struct DeviceScheme {
  std::variant<std::monostate, DeviceIntegers, DeviceFloat8, DeviceSigns, DeviceScaledSigns, DeviceSideMeans, DeviceDynamicTree,
               DeviceNatural, DeviceRandomLevels<Measure::squares, false>, DeviceRandomLevels<Measure::squares, true>,
               DeviceRandomLevels<Measure::largest, true>>
      scheme;
  std::int64_t bucket = 0;
};

/// The layout of codes and headers in a message of `count` values.
struct QuantiserLayout {
  std::int64_t bucket = 0;  ///< elements that share a header; 0: all
  int headers = 0, bits = 1;

  [[nodiscard]] constexpr std::int64_t bucket_of(std::int64_t count) const { return bucket > 0 ? bucket : count; }
  [[nodiscard]] constexpr std::int64_t buckets(std::int64_t count) const {
    return count == 0 ? 0 : (count - 1) / bucket_of(count) + 1;
  }
  [[nodiscard]] constexpr std::int64_t header_bytes(std::int64_t count) const { return (4 * headers * buckets(count) + 7) / 8 * 8; }
  [[nodiscard]] constexpr std::int64_t bytes(std::int64_t count) const {
    return header_bytes(count) + (code_bytes(count, bits) + 7) / 8 * 8;
  }
};

}  // namespace weir::compress
