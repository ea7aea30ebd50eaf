#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernels.hpp"
#include "kernels/sum_of_few.hpp"

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

namespace weir::kernels {
namespace {

/// Adds two numbers, and returns what the sum lacks (Knuth). Exact, unless it overflows.
double add_exactly(double x, double& sum) {
  const double before = sum;
  sum += x;
  const double added = sum - before;
  return (before - (sum - added)) + (x - added);
}

}  // namespace

double sum_of_few(const double* values, int count) {
  constexpr std::uint64_t magnitude = ~(std::uint64_t{1} << 63);
  constexpr int mantissa_bits = 52, bias = 1023, width = ReproducibleTotal::width;
  constexpr int least = 200, most = 1900;  // biased exponents for which nothing below overflows or is subnormal
  std::uint64_t largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<std::uint64_t>(values[i]) & magnitude);
  if (largest == 0) return 0;
  const int exponent = static_cast<int>(largest >> mantissa_bits);
  bool lost = exponent < least || exponent > most;
  if (!lost) {
    // The total counts in units of 2^(width (top - parts + 1)). Values from 2^52 units on are multiples of them, and adding 2^52
    // units rounds the others.
    constexpr int far = bias / width + 1;  // makes top positive, so that the division rounds down
    const int top = (exponent + 1 - bias + far * width) / width - far;
    const int many = width * (top - ReproducibleTotal::parts + 1) + mantissa_bits;
    const double to_units = std::bit_cast<double>(static_cast<std::uint64_t>(many + bias) << mantissa_bits);
    double sum = 0, rest = 0;
    for (int i = 0; i < count; ++i) {
      const double size = std::abs(values[i]);
      const double x = size < to_units ? std::copysign((size + to_units) - to_units, values[i]) : values[i];
      lost = add_exactly(add_exactly(x, sum), rest) != 0 || lost;
    }
    if (!lost) return sum + rest;  // rounds the exact sum, once
  }
  ReproducibleTotal total;
  host::add_to_total(values, count, total);
  return total.value();
}

}  // namespace weir::kernels
