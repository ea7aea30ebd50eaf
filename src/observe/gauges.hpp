// gauges.hpp: computes figures of an UpdateInfo.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir {

/// Returns the bytes of a gradient over those of payload sent; 0 if none was sent.
[[nodiscard]] constexpr double compression(std::int64_t bytes, std::int64_t payload_bytes) {
  return payload_bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(payload_bytes) : 0;
}

/// Estimates the sum of squares from some entries.
template <class T>
[[nodiscard]] double sampled_square(std::span<const T> x) {
  constexpr std::size_t entries = 4096;
  const std::size_t stride = std::max<std::size_t>(1, x.size() / entries);
  double sum = 0;
  std::size_t sampled = 0;
  for (std::size_t i = 0; i < x.size(); i += stride, ++sampled) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sampled == 0 ? 0 : sum / static_cast<double>(sampled) * static_cast<double>(x.size());
}

}  // namespace weir
