#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernels.hpp"

namespace weir {

namespace {

/// Returns x * 2^exponent. |x| is 0, or at least 1 and below 2^127. Multiplying is several times as fast as ldexp, and exact unless
/// the result may overflow or be subnormal.
double scaled(double x, int exponent) {
  constexpr int bias = 1023, mantissa_bits = 52, least = -1000, most = 800;
  if (exponent < least || exponent > most) return std::ldexp(x, exponent);
  return x * std::bit_cast<double>(static_cast<std::uint64_t>(exponent + bias) << mantissa_bits);
}

/// Gives `total` a higher top. What its last part cannot count is let go.
void raise(ReproducibleTotal& total, int top) {
  const int up = std::min(top - total.top, ReproducibleTotal::parts);
  for (int j = ReproducibleTotal::parts - 1; j >= 0; --j)
    total.part[static_cast<std::size_t>(j)] = j >= up ? total.part[static_cast<std::size_t>(j - up)] : 0;
  total.top = top;
}

}  // namespace

void ReproducibleTotal::merge(const ReproducibleTotal& other) {
  nan = nan || other.nan;
  above = above || other.above;
  below = below || other.below;
  if (other.top == nothing) return;
  if (top < other.top) raise(*this, other.top);
  const int down = std::min(top - other.top, parts);
  for (int j = down; j < parts; ++j) part[static_cast<std::size_t>(j)] += other.part[static_cast<std::size_t>(j - down)];
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
  if (high < room && high > -room) return scaled(static_cast<double>((high << width) + low), unit);
  // The last part is far below the last bit of the result. It only says on which side of a tie the sum is.
  return scaled(static_cast<double>((high << 1) + (low != 0 ? 1 : 0)), unit + width - 1);
}

}  // namespace weir
