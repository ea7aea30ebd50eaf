#include <cmath>
#include <limits>
#include <utility>

#include "kernels/kernels.hpp"

namespace weir {

void ReproducibleTotal::merge(const ReproducibleTotal& other) {
  nan = nan || other.nan;
  above = above || other.above;
  below = below || other.below;
  if (other.top == nothing) return;
  const int shared_top = std::max(top, other.top);
  const auto at_top = [&](const ReproducibleTotal& from) {
    std::array<std::int64_t, parts> moved{};
    for (int j = shared_top - from.top; j < parts; ++j)
      moved[static_cast<std::size_t>(j)] = from.part[static_cast<std::size_t>(j - (shared_top - from.top))];
    return moved;
  };
  const auto mine = at_top(*this), others = at_top(other);
  for (std::size_t j = 0; j < parts; ++j) part[j] = mine[j] + others[j];
  top = shared_top;
}

double ReproducibleTotal::value() const {
  if (nan || (above && below)) return std::numeric_limits<double>::quiet_NaN();
  if (above || below) return above ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  if (top == nothing) return 0;
  // Carries, until all parts but the first are between 0 and 2^width.
  std::array<std::int64_t, parts> carried = part;
  for (std::size_t j = parts - 1; j > 0; --j) {
    const std::int64_t carry = carried[j] >> width;
    carried[j] -= carry << width;
    carried[j - 1] += carry;
  }
  __extension__ using Wide = __int128;
  Wide high = 0;
  for (std::size_t j = 0; j + 1 < parts; ++j) high = (high << width) + carried[j];  // below 2^(63 + 2 width)
  const std::int64_t low = carried[parts - 1];
  const int unit = width * (top - parts + 1);
  constexpr Wide room = Wide{1} << 96;
  if (high < room && high > -room) return std::ldexp(static_cast<double>((high << width) + low), unit);
  // The last part is far below the last bit of the result. It only says on which side of a tie the sum is.
  return std::ldexp(static_cast<double>((high << 1) + (low != 0 ? 1 : 0)), unit + width - 1);
}

}  // namespace weir
