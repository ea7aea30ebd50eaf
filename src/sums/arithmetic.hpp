// arithmetic.hpp: what sparse sums compute, for each type and operation.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <weir/weir.hpp>

#include "sums/array_part.hpp"
#include "sums/entries.hpp"

namespace weir::sums {

/// The loops of one operation. Where two values are combined, `lower` is that of the lower ranks and comes first.
template <class T>
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  /// Combines with any value to that value, bit for bit, except that NaN may become quiet (-0.0 for the sum of floats). For min and
  /// max, NaN stays NaN.
  const T identity;
  /// Entries stay as they are until all of an index are at one place: merge and fold keep all, beside each other, and `total` sums
  /// them.
  const bool keeps_terms;
  /// Additions that overflow are errors: all loops but `add` set `overflow` to the index of one.
  const bool checks;
  static constexpr std::int64_t none = -1;
  std::int64_t overflow = none;

  /// Sets out[i] to lower[i] combined with upper[i]; these are elements `first` + i. `out` may be either of the others.
  virtual void combine(const T* lower, const T* upper, T* out, std::int64_t count, std::int64_t first) = 0;
  /// Combines packed values, one for each set bit, with elements of a part, which gets these bits, too.
  virtual void combine_packed(const std::uint64_t* bits, const T* packed, bool packed_is_lower, const ArrayPart<T>& part) = 0;
  /// Merges two lists; entries with the same index become one. The output has room for both and may be the memory of neither;
  /// except that `upper` may lie in the same arrays, lower.count or more entries after their beginning. Returns the count.
  virtual std::int64_t merge(const Entries<T>& lower, const Entries<T>& upper, std::int64_t* indices, T* values) = 0;
  /// Combines neighbours with the same index, from left to right, in place. Returns the count.
  virtual std::int64_t fold(std::int64_t* indices, T* values, std::int64_t count) = 0;
  /// Sums neighbours with the same index by sum_of_terms, if the operation keeps terms. The output may be the memory of `terms`.
  /// Returns the count.
  virtual std::int64_t total(const Entries<T>& terms, std::int64_t* indices, T* values) = 0;
  /// Combines each entry into dense[index - base], which comes first.
  virtual void add(const Entries<T>& entries, std::int64_t base, T* dense) = 0;
  /// Sets `overflow` if `add` would overflow.
  virtual void check_add(const Entries<T>& entries, std::int64_t base, const T* dense) = 0;

 protected:
  Arithmetic(T neutral, bool keeps, bool is_checked) : identity(neutral), keeps_terms(keeps), checks(is_checked) {}
};

/// Returns whether the operation keeps the terms of this type: sums of integers have no need to.
[[nodiscard]] constexpr bool keeps_terms(SumOperation operation, SumType type) {
  return operation == SumOperation::reproducible_sum && (type == SumType::float32 || type == SumType::float64);
}

/// Only sums of integers can be checked.
template <class T>
[[nodiscard]] std::unique_ptr<Arithmetic<T>> make_arithmetic(SumOperation operation);

/// Returns a sum that does not depend on the order of the terms, nor on zeros among them. Up to two others are added and rounded.
/// More go to a ReproducibleTotal. A sum of zeros is +0; NaN, and infinities of both signs, give the quiet NaN of numeric_limits.
template <class T>
[[nodiscard]] T sum_of_terms(const T* terms, std::int64_t count);

/// Sorts entries by index; those with the same index stay in order, and so do those whose indices differ in the lowest
/// `skipped_bits` bits alone. `spare` has room for as many. Returns whether they are in `spare` afterwards.
template <class T>
[[nodiscard]] bool sort_entries(EntryMemory<T>& entries, EntryMemory<T>& spare, std::int64_t count, std::int64_t range,
                                int skipped_bits = 0);

/// The order in which ranks are combined: calls merge(a, b) so that what belongs to rank b joins what belongs to rank a, a < b; in
/// the end rank 0 has everything. A binary tree that depends only on the number of ranks: with 2^m the largest power of two that is
/// not above it, first 0 + 1, 2 + 3 and so on as often as it takes to leave 2^m, then neighbours. For four ranks (0+1)+(2+3), for
/// five ((0+1)+2)+(3+4).
template <class Merge>
void combine_in_order(int ranks, const Merge& merge) {
  const int groups = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), pairs = ranks - groups;
  const auto first = [&](int group) { return group < pairs ? 2 * group : group + pairs; };
  for (int pair = 0; pair < pairs; ++pair) merge(2 * pair, 2 * pair + 1);
  for (int distance = 1; distance < groups; distance *= 2) {
    for (int group = 0; group < groups; group += 2 * distance) merge(first(group), first(group + distance));
  }
}

}  // namespace weir::sums
