// sparse.cpp: kernels that write entries of dense arrays, by sorted lists of indices. Vectors would not help: the cost is one
// unpredictable branch per entry, and cache misses in `dense`. So walks avoid such branches, and prefetch what they will write.
#include <hwy/base.h>

#include <algorithm>
#include <bit>

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

namespace {

/// Entries to prefetch ahead: enough to cover a miss, and few enough that the lines are still there.
constexpr std::int64_t prefetch_ahead = 128;

/// Prefetches into the second-level cache, which can have more lines in transit than the first: the stores alone keep the first
/// busy.
HWY_INLINE void prefetch(const void* place) { __builtin_prefetch(place, 1, 2); }

template <class T>
struct SparseView {
  const std::uint32_t* indices;
  const T* values;
};

/// The position of a walk over entries[entry, entries_end) and taken[taken, taken_end).
struct SettlePosition {
  std::int64_t entry, entries_end, taken, taken_end;

  /// Returns how many steps are possible before one of the two ends.
  [[nodiscard]] std::int64_t steps() const { return std::min(entries_end - entry, taken_end - taken); }
};

template <class T>
HWY_INLINE void settle_step(T* dense, SparseView<T> entries, std::int64_t count, const std::uint32_t* taken, SettlePosition& at) {
  const std::uint32_t index = entries.indices[at.entry], taken_index = taken[at.taken];
  const auto zero_if_taken = static_cast<Key<T>>(Key<T>{index == taken_index} - 1);
  // Too early if taken_index < index: a later step then writes the same element again.
  dense[index] = std::bit_cast<T>(static_cast<Key<T>>(std::bit_cast<Key<T>>(entries.values[at.entry]) & zero_if_taken));
  prefetch(dense + entries.indices[std::min(at.entry + prefetch_ahead, count - 1)]);
  at.entry += index <= taken_index;
  at.taken += taken_index <= index;
}

}  // namespace

template <class T>
void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
            std::int64_t taken_count) {
  const SparseView<T> entries{indices, values};
  // A step waits for the one before it, so two independent halves advance together.
  const std::int64_t half = count / 2;
  const std::int64_t taken_half = count == 0 ? 0 : std::lower_bound(taken, taken + taken_count, indices[half]) - taken;
  SettlePosition lower{0, half, 0, taken_half}, upper{half, count, taken_half, taken_count};
  while (std::min(lower.steps(), upper.steps()) > 0) {
    for (std::int64_t left = std::min(lower.steps(), upper.steps()); left > 0; --left) {
      settle_step(dense, entries, count, taken, lower);
      settle_step(dense, entries, count, taken, upper);
    }
  }
  for (SettlePosition at : {lower, upper}) {
    while (at.steps() > 0) settle_step(dense, entries, count, taken, at);
    scatter(dense, indices + at.entry, values + at.entry, at.entries_end - at.entry);
  }
}

template <class T>
void clear_taken(T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken, std::int64_t taken_count) {
  for (std::int64_t i = 0, t = 0; i < count && t < taken_count;) {
    const std::uint32_t index = indices[i], taken_index = taken[t];
    if (index == taken_index) dense[index] = 0;
    i += index <= taken_index;
    t += taken_index <= index;
  }
}

template <class T>
void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + prefetch_ahead < count; ++i) {
    prefetch(dense + indices[i + prefetch_ahead]);
    dense[indices[i]] = values[i];
  }
  for (; i < count; ++i) dense[indices[i]] = values[i];
}

#define WEIR_INSTANTIATE(T)                                                                                   \
  template void settle(T*, const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, std::int64_t); \
  template void clear_taken(T*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);      \
  template void scatter(T*, const std::uint32_t*, const T*, std::int64_t);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
