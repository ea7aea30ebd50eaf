#include "sums/arithmetic.hpp"

#include <array>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

namespace weir::sums {
namespace {

template <class T>
struct Sum {
  static constexpr T identity = std::is_integral_v<T> ? T{0} : static_cast<T>(-0.0);
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};

template <class T>
struct Min {
  static constexpr T identity = std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  static T of(T a, T b) { return a <= b || a != a ? a : b; }
};

template <class T>
struct Max {
  static constexpr T identity = std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
  static T of(T a, T b) { return a >= b || a != a ? a : b; }
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T, class Operation>
void combine(T* lower, const T* upper, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) lower[i] = Operation::of(lower[i], upper[i]);
}

// Which list comes next is as good as random: no branch depends on it.
template <class T, class Operation>
std::int64_t merge(const Entries<T>& lower, const Entries<T>& upper, std::int64_t* indices, T* values) {
  std::int64_t a = 0, b = 0, count = 0;
  while (a < lower.count && b < upper.count) {
    const std::int64_t i = lower.indices[a], j = upper.indices[b];
    const T x = lower.values[a], y = upper.values[b];
    const bool takes_lower = i <= j, takes_upper = j <= i;
    const auto lower_mask = static_cast<Bits<T>>(-static_cast<std::int64_t>(!takes_upper));
    const auto upper_mask = static_cast<Bits<T>>(-static_cast<std::int64_t>(!takes_lower));
    const Bits<T> both = std::bit_cast<Bits<T>>(Operation::of(x, y));
    indices[count] = takes_lower ? i : j;
    values[count] = std::bit_cast<T>((std::bit_cast<Bits<T>>(x) & lower_mask) | (std::bit_cast<Bits<T>>(y) & upper_mask) |
                                     (both & ~(lower_mask | upper_mask)));
    a += takes_lower;
    b += takes_upper;
    ++count;
  }
  std::copy(lower.indices + a, lower.indices + lower.count, indices + count);
  std::copy(lower.values + a, lower.values + lower.count, values + count);
  count += lower.count - a;
  std::copy(upper.indices + b, upper.indices + upper.count, indices + count);
  std::copy(upper.values + b, upper.values + upper.count, values + count);
  return count + upper.count - b;
}

template <class T, class Operation>
std::int64_t fold(std::int64_t* indices, T* values, std::int64_t count) {
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    if (last >= 0 && indices[last] == indices[i]) {
      values[last] = Operation::of(values[last], values[i]);
    } else {
      ++last;
      indices[last] = indices[i];
      values[last] = values[i];
    }
  }
  return last + 1;
}

template <class T, class Operation>
void add(const Entries<T>& entries, std::int64_t base, T* dense) {
  for (std::int64_t i = 0; i < entries.count; ++i) {
    T& element = dense[entries.indices[i] - base];
    element = Operation::of(element, entries.values[i]);
  }
}

template <class T, class Operation>
constexpr Arithmetic<T> arithmetic{Operation::identity, combine<T, Operation>, merge<T, Operation>, fold<T, Operation>,
                                   add<T, Operation>};

}  // namespace

template <class T>
const Arithmetic<T>& arithmetic_of(SumOperation operation) {
  switch (operation) {
    case SumOperation::min:
      return arithmetic<T, Min<T>>;
    case SumOperation::max:
      return arithmetic<T, Max<T>>;
    default:
      return arithmetic<T, Sum<T>>;
  }
}

/// By digits of 8 bits, the lowest first.
template <class T>
bool sort_entries(EntryMemory<T>& entries, EntryMemory<T>& spare, std::int64_t count, std::int64_t range) {
  constexpr int digit_bits = 8, digits = 1 << digit_bits;
  EntryMemory<T>*from = &entries, *to = &spare;
  for (int shift = 0; shift < 63 && (range - 1) >> shift > 0; shift += digit_bits) {
    const auto digit = [shift](std::int64_t index) { return static_cast<std::size_t>(index >> shift & (digits - 1)); };
    std::array<std::int64_t, digits> place{};
    for (std::int64_t i = 0; i < count; ++i) ++place[digit(from->indices[i])];
    if (place[digit(from->indices[0])] == count) continue;
    std::int64_t begin = 0;
    for (std::int64_t& next : place) begin += std::exchange(next, begin);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = from->indices[i], at = place[digit(index)]++;
      to->indices[at] = index;
      to->values[at] = from->values[i];
    }
    std::swap(from, to);
  }
  return from == &spare;
}

#define WEIR_SUM_TYPE(T)                                                  \
  template const Arithmetic<T>& arithmetic_of<T>(SumOperation operation); \
  template bool sort_entries<T>(EntryMemory<T>&, EntryMemory<T>&, std::int64_t, std::int64_t);
WEIR_SUM_TYPE(float)
WEIR_SUM_TYPE(double)
WEIR_SUM_TYPE(std::int32_t)
WEIR_SUM_TYPE(std::int64_t)
#undef WEIR_SUM_TYPE

}  // namespace weir::sums
