// resampling.hpp: images made smaller or larger in whole numbers, so that every machine makes the same. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::datacache {

struct Extent2 {
  int height = 0, width = 0;
};

/// Between which two of a line's or column's pixels a new pixel lies, and how near to the second, of `weights`.
struct Between {
  int first = 0, second = 0, weight = 0;
};
inline constexpr int weight_bits = 11, weights = 1 << weight_bits;

/// The largest centred part of `from` that has the shape of `to`, in as many pixels as `to`: where its lines and columns lie.
struct CentredCrop {
  CentredCrop(Extent2 from, Extent2 to);
  std::vector<Between> lines, columns;
};

/// One line of the result, by bilinear interpolation: `columns`.size() pixels of red, green, blue.
void blend(std::span<const std::byte> first, std::span<const std::byte> second, int weight, std::span<const Between> columns,
           std::span<std::byte> line);

}  // namespace weir::datacache
