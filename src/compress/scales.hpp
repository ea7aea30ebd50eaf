// scales.hpp: the values that a bucket's numbers stand for, and the parameter for the size of buckets.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "compress/compressor.hpp"
#include "compress/level_scale.hpp"

namespace weir::compress {

/// Returns the square root, at most the largest float if `squares` is a sum over finite floats. NaN is always the same NaN.
[[nodiscard]] inline float norm_of(double squares) {
  if (std::isnan(squares)) return std::numeric_limits<float>::quiet_NaN();
  const double norm = std::sqrt(squares);
  return norm > std::numeric_limits<float>::max() && std::isfinite(norm) ? std::numeric_limits<float>::max()
                                                                         : static_cast<float>(norm);
}

[[nodiscard]] constexpr ParameterInfo bucket_parameter(double value) {
  return {.name = "bucket",
          .value = value,
          .least = 0,
          .most = 1 << 30,
          .doc = "elements that share a scale: a power of two from 32 on, or 0: all that travel in one message"};
}

inline void check_bucket(const Parameters& parameters) {
  const std::int64_t bucket = parameters.whole("bucket");
  require(bucket == 0 || (bucket >= 32 && std::has_single_bit(static_cast<std::uint64_t>(bucket))),
          "compressor_parameters: bucket is {}: it must be a power of two of at least 32, or 0", bucket);
}

}  // namespace weir::compress
