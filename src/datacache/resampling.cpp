#include "datacache/resampling.hpp"

#include <algorithm>

namespace weir::datacache {
namespace {

/// Returns the places of `to` pixel centres, `numerator` / `denominator` apart, around the centre of `from` pixels.
std::vector<Between> places(int from, int to, std::int64_t numerator, std::int64_t denominator) {
  std::vector<Between> found;
  found.reserve(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    // (i + 1/2 - to/2) numerator/denominator + from/2 - 1/2, in units of 1/weights, rounded.
    const std::int64_t twice = (2LL * i + 1 - to) * numerator + (from - 1LL) * denominator;
    const std::int64_t largest = (from - 1LL) * weights;
    const std::int64_t shifted = twice * weights + denominator;
    const std::int64_t at = shifted < 0 ? 0 : std::min(shifted / (2 * denominator), largest);
    const int first = static_cast<int>(at >> weight_bits);
    found.push_back({first, std::min(first + 1, from - 1), static_cast<int>(at & (weights - 1))});
  }
  return found;
}

}  // namespace

CentredCrop::CentredCrop(Extent2 from, Extent2 to) {
  const bool whole_height = static_cast<std::int64_t>(from.width) * to.height >= static_cast<std::int64_t>(from.height) * to.width;
  const int numerator = whole_height ? from.height : from.width, denominator = whole_height ? to.height : to.width;
  lines = places(from.height, to.height, numerator, denominator);
  columns = places(from.width, to.width, numerator, denominator);
}

void blend(std::span<const std::byte> first, std::span<const std::byte> second, int weight, std::span<const Between> columns,
           std::span<std::byte> line) {
  constexpr int half = 1 << (2 * weight_bits - 1);
  const auto sample = [](std::span<const std::byte> row, int pixel, std::size_t colour) {
    return std::to_integer<int>(row[3 * static_cast<std::size_t>(pixel) + colour]);
  };
  for (std::size_t x = 0; x < columns.size(); ++x) {
    const Between& at = columns[x];
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const int above = sample(first, at.first, colour) * (weights - at.weight) + sample(first, at.second, colour) * at.weight;
      const int below = sample(second, at.first, colour) * (weights - at.weight) + sample(second, at.second, colour) * at.weight;
      line[3 * x + colour] = static_cast<std::byte>((above * (weights - weight) + below * weight + half) >> (2 * weight_bits));
    }
  }
}

}  // namespace weir::datacache
