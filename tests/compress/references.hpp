// references.hpp: the decoded values of compressors, computed slowly, element by element, from the papers' definitions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compress/compressor.hpp"
#include "compress/philox.hpp"

namespace weir::test::reference {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A bucket of elements. `first` is the place of its first element.
struct Bucket {
  std::span<const float> x;
  Draw draw;
  std::uint64_t first;

  [[nodiscard]] float uniform(std::size_t i) const { return compress::uniform_of(compress::random_bits(draw, first + i)); }
  [[nodiscard]] float largest() const {
    float most = 0;
    for (const float value : x) {
      if (std::isnan(value)) return nan;
      most = std::max(most, std::abs(value));
    }
    return most;
  }
  /// Returns the sum in double, over 32 partial sums that are then folded, so that messages do not depend on the processor.
  template <class F>
  [[nodiscard]] double sum(F f) const {
    std::array<double, 32> sums{};
    for (std::size_t i = 0; i < x.size(); ++i) sums[i % 32] += f(static_cast<double>(x[i]));
    for (std::size_t half = 16; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }
};
using Decoded = std::vector<float>;

/// Returns whether a bucket has no usable scale. If so, sets `to` to its decoded values.
inline bool without_scale(float whole, Bucket bucket, Decoded& to) {
  if (whole >= 0x1p-100f && std::isfinite(whole)) return false;
  to.assign(bucket.x.size(), whole < 1 ? 0.0f : nan);
  return true;
}

/// Returns level l of s with probability 1 - (a - l), and l + 1 with probability a - l, for a = s |x| / whole (QSGD, section 3.1).
inline Decoded random_levels(Bucket bucket, float whole, int levels) {
  Decoded to;
  if (without_scale(whole, bucket, to)) return to;
  const float per_value = static_cast<float>(levels) / whole, per_level = whole / static_cast<float>(levels);
  for (std::size_t i = 0; i < bucket.x.size(); ++i) {
    const double exact = std::min(std::abs(bucket.x[i]) * (per_value * 65536), static_cast<float>(levels) * 65536) / 65536.0;
    const double level = std::min(std::floor(std::floor(exact * 65536) / 65536 + static_cast<double>(bucket.uniform(i))),
                                  static_cast<double>(levels));
    to.push_back(static_cast<float>(std::signbit(bucket.x[i]) ? -level + 0.0 : level) * per_level);
  }
  return to;
}

inline Decoded qsgd(Bucket bucket, int levels) {
  const double norm = std::sqrt(bucket.sum([](double v) { return v * v; }));
  const auto most = static_cast<double>(std::numeric_limits<float>::max());
  return random_levels(bucket, static_cast<float>(std::isfinite(norm) ? std::min(norm, most) : norm), levels);
}

inline Decoded terngrad(Bucket bucket, double clip) {
  float whole = bucket.largest();
  if (clip > 0 && std::isfinite(whole)) {
    const double deviation = std::sqrt(bucket.sum([](double v) { return v * v; }) / static_cast<double>(bucket.x.size()));
    if (clip * deviation < static_cast<double>(whole)) whole = static_cast<float>(clip * deviation);
  }
  return random_levels(bucket, whole, 1);
}

inline Decoded integers(Bucket bucket, int levels) {
  const float whole = bucket.largest();
  Decoded to;
  if (without_scale(whole, bucket, to)) return to;
  const float per_value = static_cast<float>(levels) / whole, per_level = whole / static_cast<float>(levels);
  for (const float value : bucket.x) to.push_back((std::nearbyint(value * per_value) + 0.0f) * per_level);
  return to;
}

/// Returns the value of an E4M3 code: a sign, 4 bits of exponent and 3 of mantissa. The code 0x7f is NaN.
inline float e4m3(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return std::ldexp(static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa), std::max(exponent, 1) - 10);
}
inline Decoded float8(Bucket bucket) {
  const float whole = bucket.largest();
  Decoded to;
  if (without_scale(whole, bucket, to)) return to;
  const float per_value = 448 / whole, per_level = whole / 448;
  for (const float value : bucket.x) {
    const float magnitude = std::min(std::abs(value) * per_value, 448.0f);
    int nearest = 0;
    for (int code = 1; code < 0x7f; ++code) {
      const double there = std::abs(static_cast<double>(e4m3(code)) - static_cast<double>(magnitude));
      const double best = std::abs(static_cast<double>(e4m3(nearest)) - static_cast<double>(magnitude));
      if (there < best || (there == best && code % 2 == 0)) nearest = code;
    }
    to.push_back(std::copysign(e4m3(nearest), value) * per_level);
  }
  return to;
}

/// Returns the values of the codes 0 to 127 of the dynamic tree: z zeros, a one, and bits that bisect [0.1, 1].
inline const std::array<double, 128>& dynamic_tree() {
  static const std::array<double, 128> values = [] {
    std::array<double, 128> tree{};
    for (int code = 1; code < 128; ++code) {
      int zeros = 0;
      while ((code >> (6 - zeros) & 1) == 0) ++zeros;
      double low = 0.1, high = 1;
      for (int bit = 5 - zeros; bit >= 0; --bit) ((code >> bit & 1) != 0 ? low : high) = (low + high) / 2;
      tree[static_cast<std::size_t>(code)] = (low + high) / 2 * std::pow(10.0, -zeros);
    }
    return tree;
  }();
  return values;
}

inline Decoded signs(Bucket bucket) {
  Decoded to;
  for (const float value : bucket.x) to.push_back(std::signbit(value + 0.0f) ? -1.0f : 1.0f);
  return to;
}

inline Decoded ef_sign_sgd(Bucket bucket) {
  const auto mean = static_cast<float>(bucket.sum([](double v) { return std::abs(v); }) / static_cast<double>(bucket.x.size()));
  Decoded to = signs(bucket);
  for (float& sign : to) sign = !std::isfinite(mean) ? nan : mean == 0 ? 0.0f : sign * mean;
  return to;
}

inline Decoded one_bit_sgd(Bucket bucket) {
  const auto negatives = static_cast<double>(std::count_if(bucket.x.begin(), bucket.x.end(), [](float v) { return v < 0; }));
  const auto others = static_cast<double>(bucket.x.size()) - negatives;
  const auto mean = [](double sum, double count) {
    const auto value = static_cast<float>(count == 0 ? 0.0 : sum / count);
    return std::isfinite(value) ? value : nan;
  };
  const float below = mean(bucket.sum([](double v) { return v < 0 ? v : 0.0; }), negatives);
  const float above = mean(bucket.sum([](double v) { return v < 0 ? 0.0 : v; }), others);
  Decoded to;
  for (const float value : bucket.x) to.push_back(value < 0 ? below : above);
  return to;
}

/// Returns 2^(a+1) with probability |x| / 2^a - 1, to the nearest 2^-16, otherwise 2^a.
inline Decoded natural(Bucket bucket) {
  Decoded to;
  for (std::size_t i = 0; i < bucket.x.size(); ++i) {
    const float value = bucket.x[i];
    if (!std::isfinite(value)) {
      to.push_back(nan);
      continue;
    }
    const double magnitude = std::abs(static_cast<double>(value));
    double low = 0, high = 0x1p-126;
    if (magnitude >= high) {
      low = std::exp2(std::ilogb(magnitude));
      high = 2 * low;
    }
    const double up = std::floor((magnitude - low) / (high - low) * 65536 + 0.5) / 65536;
    const bool rises = static_cast<double>(bucket.uniform(i)) >= 1 - up && high < 0x1p128;
    to.push_back(std::copysign(static_cast<float>(rises ? high : low), value));
  }
  return to;
}

/// Depending on its magnitude, drops a value, rounds it to 7 bits in units of 2^-b or to 15 bits in units of 2^-max(b, 15), or
/// keeps it.
inline Decoded inceptionn(Bucket bucket, int bound) {
  const int fine = std::max(bound, 15);
  const auto in_units = [](double magnitude, int bits, double most) {
    return std::ldexp(std::min(std::nearbyint(std::ldexp(magnitude, bits)), most), -bits);
  };
  Decoded to;
  for (const float value : bucket.x) {
    const double magnitude = std::abs(static_cast<double>(value));
    double kept = magnitude;
    if (magnitude < std::ldexp(1.0, -bound)) {
      to.push_back(0);
      continue;
    }
    if (magnitude < std::min(std::ldexp(1.0, 7 - bound), 1.0)) {
      kept = in_units(magnitude, bound, 127);
    } else if (magnitude < std::ldexp(1.0, 15 - fine)) {
      kept = in_units(magnitude, fine, 32767);
    }
    to.push_back(std::copysign(static_cast<float>(kept), value));
  }
  return to;
}

/// Returns the largest error that error_bounded may make.
inline double bound_of(std::span<const float> x, double absolute, double relative) {
  double least = 0, most = 0;
  bool any = false;
  for (const float value : x) {
    if (!std::isfinite(value)) continue;
    least = any ? std::min(least, static_cast<double>(value)) : static_cast<double>(value);
    most = any ? std::max(most, static_cast<double>(value)) : static_cast<double>(value);
    any = true;
  }
  return relative > 0 ? relative * (most - least) : absolute;
}

/// Returns the nearest multiples of the largest power of two, from 2^-126 to 2^104, that is at most twice the bound. Returns the
/// values themselves if all are larger.
inline Decoded error_bounded(Bucket bucket, double absolute, double relative) {
  const double bound = bound_of(bucket.x, absolute, relative);
  int exponent = 104;
  while (exponent >= -126 && std::ldexp(1.0, exponent) > 2 * bound) --exponent;
  Decoded to;
  for (const float value : bucket.x) {
    const bool rounds = exponent >= -126 && std::abs(value) <= std::ldexp(1.0F, exponent + 23);
    const double multiple = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -exponent)), exponent);
    to.push_back(rounds ? static_cast<float>(multiple) + 0.0F : value + 0.0F);
  }
  return to;
}

using Function = std::function<Decoded(Bucket, const Parameters&)>;

/// Returns the references by name. eight_bit has none; its errors are tested instead.
inline const std::map<std::string, Function>& all() {
  static const std::map<std::string, Function> functions = {
      {"block_quantise",
       [](Bucket bucket, const Parameters& p) {
         return p["format"] == 0 ? integers(bucket, 127) : p["format"] == 1 ? integers(bucket, 7) : float8(bucket);
       }},
      {"ef_sign_sgd", [](Bucket bucket, const Parameters&) { return ef_sign_sgd(bucket); }},
      {"error_bounded", [](Bucket bucket, const Parameters& p) { return error_bounded(bucket, p["absolute"], p["relative"]); }},
      {"inceptionn", [](Bucket bucket, const Parameters& p) { return inceptionn(bucket, static_cast<int>(p["bound"])); }},
      {"natural", [](Bucket bucket, const Parameters&) { return natural(bucket); }},
      {"one_bit_sgd", [](Bucket bucket, const Parameters&) { return one_bit_sgd(bucket); }},
      {"qsgd", [](Bucket bucket, const Parameters& p) { return qsgd(bucket, static_cast<int>(p["levels"])); }},
      {"sign_sgd", [](Bucket bucket, const Parameters&) { return signs(bucket); }},
      {"signum", [](Bucket bucket, const Parameters&) { return signs(bucket); }},
      {"terngrad", [](Bucket bucket, const Parameters& p) { return terngrad(bucket, p["clip"]); }},
  };
  return functions;
}

/// Applies the reference, to each bucket separately if the row has buckets.
inline Decoded through(const std::string& name, const std::string& parameters, const Draw& draw, std::int64_t first,
                       const std::vector<float>& x) {
  const compress::Compressor made = compress::make_compressor(name, parameters);
  const std::string text = made.parameters.text();
  std::size_t bucket = text.find("bucket=") == std::string::npos ? 0 : static_cast<std::size_t>(made.parameters["bucket"]);
  if (bucket == 0) bucket = std::max<std::size_t>(x.size(), 1);
  Decoded all_decoded;
  for (std::size_t begin = 0; begin < x.size(); begin += bucket) {
    const std::span<const float> part(x.data() + begin, std::min(bucket, x.size() - begin));
    const Decoded some = all().at(name)({part, draw, static_cast<std::uint64_t>(first) + begin}, made.parameters);
    all_decoded.insert(all_decoded.end(), some.begin(), some.end());
  }
  return all_decoded;
}

}  // namespace weir::test::reference
