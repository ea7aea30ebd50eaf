#include "sums/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "kernels/kernels.hpp"

namespace weir::sums {
namespace {

struct Plain {
  static constexpr bool keeps_terms = false, checks = false;
};

template <class T>
struct Sum : Plain {
  static constexpr T identity = std::is_integral_v<T> ? T{0} : static_cast<T>(-0.0);
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};

template <class T>
struct Min : Plain {
  static constexpr T identity = std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  static T of(T a, T b) { return a <= b || a != a ? a : b; }
};

template <class T>
struct Max : Plain {
  static constexpr T identity = std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
  static T of(T a, T b) { return a >= b || a != a ? a : b; }
};

template <class T>
struct Terms : Sum<T> {
  static constexpr bool keeps_terms = true;
};

template <class T>
struct CheckedSum : Sum<T> {
  static constexpr bool checks = true;
  static bool overflows(T a, T b) {
    T sum;
    return __builtin_add_overflow(a, b, &sum);
  }
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Two lists, and where their entries go.
template <class T>
struct Lists {
  Entries<T> lower, upper;
  std::int64_t* indices;
  T* values;
};

/// A merge of parts of two lists, in progress: positions in both and in the output.
template <class T, class Operation>
struct Merge {
  std::int64_t lower, lower_end, upper, upper_end, out;
  std::int64_t overflow = Arithmetic<T>::none;

  /// Returns for how many steps both parts have entries, whatever these are.
  [[nodiscard]] std::int64_t sure_steps() const { return std::min(lower_end - lower, upper_end - upper); }
  /// Writes the next entry of both. Which list it comes from is as good as random: no branch depends on it.
  void step(const Lists<T>& lists) {
    const std::int64_t i = lists.lower.indices[lower], j = lists.upper.indices[upper];
    const T x = lists.lower.values[lower], y = lists.upper.values[upper];
    const bool takes_lower = i <= j, takes_upper = Operation::keeps_terms ? j < i : j <= i;
    if constexpr (Operation::checks) {
      if (i == j && Operation::overflows(x, y)) overflow = i;
    }
    lists.indices[out] = takes_lower ? i : j;
    Bits<T> value = takes_lower ? std::bit_cast<Bits<T>>(x) : std::bit_cast<Bits<T>>(y);
    if constexpr (!Operation::keeps_terms) {
      const auto is_of_both = static_cast<Bits<T>>(-static_cast<std::int64_t>(i == j));
      value ^= (value ^ std::bit_cast<Bits<T>>(Operation::of(x, y))) & is_of_both;
    }
    lists.values[out] = std::bit_cast<T>(value);
    lower += takes_lower;
    upper += takes_upper;
    ++out;
  }
  void append(const Lists<T>& lists, const Entries<T>& rest) {
    std::copy_n(rest.indices, rest.count, lists.indices + out);
    std::copy_n(rest.values, rest.count, lists.values + out);
    out += rest.count;
  }
  void finish(const Lists<T>& lists) {
    for (std::int64_t steps = sure_steps(); steps > 0; steps = sure_steps()) {
      Merge here = *this;  // in registers
      for (; steps > 0; --steps) here.step(lists);
      *this = here;
    }
    append(lists, lists.lower.part(lower, lower_end));
    append(lists, lists.upper.part(upper, upper_end));
  }
};

template <class T, class Operation>
std::int64_t merge(const Lists<T>& lists, std::int64_t& overflow) {
  constexpr std::int64_t few = 16;
  const Entries<T>&lower = lists.lower, &upper = lists.upper;
  const bool overlaps = upper.indices >= lists.indices && upper.indices < lists.indices + lower.count + upper.count;
  const std::int64_t cut = overlaps || lower.count < few ? lower.count : lower.count / 2;
  const std::int64_t other_cut = cut < lower.count ? upper.lower_bound(lower.indices[cut]) : upper.count;
  // Each step waits for the one before it: two halves in turns take less time.
  Merge<T, Operation> first{0, cut, 0, other_cut, 0}, second{cut, lower.count, other_cut, upper.count, cut + other_cut};
  const auto sure_steps = [&] { return std::min(first.sure_steps(), second.sure_steps()); };
  for (std::int64_t steps = sure_steps(); steps > 0; steps = sure_steps()) {
    Merge<T, Operation> here = first, there = second;  // in registers
    for (; steps > 0; --steps) {
      here.step(lists);
      there.step(lists);
    }
    first = here;
    second = there;
  }
  first.finish(lists);
  second.finish(lists);
  const std::int64_t begin = cut + other_cut;
  if constexpr (Operation::checks) overflow = std::max({overflow, first.overflow, second.overflow});
  if (first.out == begin) return second.out;
  first.append(lists, {lists.indices + begin, lists.values + begin, second.out - begin});
  return first.out;
}

template <class T, class Operation>
class ArithmeticOf final : public Arithmetic<T> {
 public:
  ArithmeticOf() : Arithmetic<T>(Operation::identity, Operation::keeps_terms, Operation::checks) {}

  void combine(const T* lower, const T* upper, T* out, std::int64_t count, std::int64_t first) override {
    for (std::int64_t i = 0; i < count; ++i) {
      check(lower[i], upper[i], first + i);
      out[i] = Operation::of(lower[i], upper[i]);
    }
  }

  void combine_packed(const std::uint64_t* bits, const T* packed, bool packed_is_lower, const ArrayPart<T>& part) override {
    const T* next = packed;
    for_each_bit(bits, bit_words(part.size), [&](std::int64_t place) {
      T& element = part.values[place];
      const T lower = packed_is_lower ? *next : element, upper = packed_is_lower ? element : *next;
      check(lower, upper, part.base + place);
      element = Operation::of(lower, upper);
      ++next;
    });
    for (std::int64_t word = 0; word < bit_words(part.size); ++word) part.bits[word] |= bits[word];
  }

  std::int64_t merge(const Entries<T>& lower, const Entries<T>& upper, std::int64_t* indices, T* values) override {
    return sums::merge<T, Operation>({lower, upper, indices, values}, this->overflow);
  }

  std::int64_t fold(std::int64_t* indices, T* values, std::int64_t count) override {
    if (Operation::keeps_terms) return count;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      if (last >= 0 && indices[last] == indices[i]) {
        check(values[last], values[i], indices[i]);
        values[last] = Operation::of(values[last], values[i]);
      } else {
        ++last;
        indices[last] = indices[i];
        values[last] = values[i];
      }
    }
    return last + 1;
  }

  std::int64_t total(const Entries<T>& terms, std::int64_t* indices, T* values) override {
    if constexpr (Operation::keeps_terms) {
      std::int64_t sums = 0;
      for (std::int64_t begin = 0, end = 0; begin < terms.count; begin = end, ++sums) {
        const std::int64_t index = terms.indices[begin];
        do ++end;
        while (end < terms.count && terms.indices[end] == index);
        indices[sums] = index;
        values[sums] = sum_of_terms(terms.values + begin, end - begin);
      }
      return sums;
    }
    fail(WEIR_ERR_INTERNAL, "this operation of a sparse sum keeps no terms");
  }

  void add(const Entries<T>& entries, std::int64_t base, T* dense) override {
    for (std::int64_t i = 0; i < entries.count; ++i) {
      T& element = dense[entries.indices[i] - base];
      element = Operation::of(element, entries.values[i]);
    }
  }

  void check_add(const Entries<T>& entries, std::int64_t base, const T* dense) override {
    for (std::int64_t i = 0; i < entries.count; ++i) check(dense[entries.indices[i] - base], entries.values[i], entries.indices[i]);
  }

 private:
  void check([[maybe_unused]] T lower, [[maybe_unused]] T upper, [[maybe_unused]] std::int64_t index) {
    if constexpr (Operation::checks) {
      if (Operation::overflows(lower, upper)) this->overflow = index;
    }
  }
};

}  // namespace

template <class T>
T sum_of_terms(const T* terms, std::int64_t count) {
  if (count - std::count(terms, terms + count, T{0}) <= 2) {
    T sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += terms[i];
    return sum == sum ? sum : std::numeric_limits<T>::quiet_NaN();
  }
  if (count > ReproducibleTotal::most_values)
    fail(WEIR_ERR_ARGUMENT, "an index of a sparse sum has {} entries: at most {} can be added", count,
         ReproducibleTotal::most_values);
  ReproducibleTotal total;
  kernels::host::add_to_total(terms, count, total);
  return static_cast<T>(total.value());
}

template <class T>
std::unique_ptr<Arithmetic<T>> make_arithmetic(SumOperation operation) {
  switch (operation) {
    case SumOperation::min:
      return std::make_unique<ArithmeticOf<T, Min<T>>>();
    case SumOperation::max:
      return std::make_unique<ArithmeticOf<T, Max<T>>>();
    case SumOperation::reproducible_sum:
      if constexpr (std::is_floating_point_v<T>) return std::make_unique<ArithmeticOf<T, Terms<T>>>();
      break;
    case SumOperation::checked_sum:
      if constexpr (std::is_integral_v<T>) return std::make_unique<ArithmeticOf<T, CheckedSum<T>>>();
      break;
    case SumOperation::sum:
      break;
  }
  return std::make_unique<ArithmeticOf<T, Sum<T>>>();
}

/// By digits of 8 bits, the lowest first.
template <class T>
bool sort_entries(EntryMemory<T>& entries, EntryMemory<T>& spare, std::int64_t count, std::int64_t range, int skipped_bits) {
  constexpr int digit_bits = 8, digits = 1 << digit_bits;
  EntryMemory<T>*from = &entries, *to = &spare;
  for (int shift = skipped_bits; count > 0 && shift < 63 && (range - 1) >> shift > 0; shift += digit_bits) {
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

#define WEIR_SUM_TYPE(T)                                                              \
  template std::unique_ptr<Arithmetic<T>> make_arithmetic<T>(SumOperation operation); \
  template bool sort_entries<T>(EntryMemory<T>&, EntryMemory<T>&, std::int64_t, std::int64_t, int);
WEIR_SUM_TYPE(float)
WEIR_SUM_TYPE(double)
WEIR_SUM_TYPE(std::int32_t)
WEIR_SUM_TYPE(std::int64_t)
#undef WEIR_SUM_TYPE
template float sum_of_terms(const float*, std::int64_t);
template double sum_of_terms(const double*, std::int64_t);

}  // namespace weir::sums
