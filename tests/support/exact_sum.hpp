// exact_sum.hpp: how far a sum is from the exact one.
#pragma once

#include <cmath>
#include <span>
#include <vector>

namespace weir::test {

/// Returns |exact sum of the terms - sum|, exact up to rounding of the difference itself. Partial sums must not overflow.
inline double error_of_sum(double sum, std::span<const double> terms) {
  std::vector<double> parts;  // that add up exactly, from the smallest on, and do not overlap (Shewchuk 1997)
  const auto add = [&](double x) {
    std::vector<double> next;
    for (const double y : parts) {
      const double total = x + y, back = total - x, rest = (x - (total - back)) + (y - back);
      if (rest != 0) next.push_back(rest);
      x = total;
    }
    next.push_back(x);
    parts = next;
  };
  add(-sum);
  for (const double term : terms) add(term);
  double error = 0;
  for (const double part : parts) error += part;
  return std::abs(error);
}

}  // namespace weir::test
