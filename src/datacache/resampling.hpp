// resampling.hpp: scales images with integer arithmetic, so that the result is the same on every machine. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::datacache {

struct Extent2 {
  int height = 0, width = 0;
};

/// The two source pixels of a line or column between which a new pixel lies, and the weight of the second, out of `weights`.
struct Between {
  int first = 0, second = 0, weight = 0;
};
inline constexpr int weight_bits = 11, weights = 1 << weight_bits;

/// The largest centred part of `from` with the shape of `to`, in as many pixels as `to`: the places of its lines and columns.
struct CentredCrop {
  CentredCrop(Extent2 from, Extent2 to);
  std::vector<Between> lines, columns;
};

/// Computes one line of the result by bilinear interpolation: `columns`.size() pixels of red, green, blue.
void blend(std::span<const std::byte> first, std::span<const std::byte> second, int weight, std::span<const Between> columns,
           std::span<std::byte> line);

}  // namespace weir::datacache
