// sparse.cpp: kernels on sorted index lists. They gain nothing from vectors; what costs is the branch per entry that cannot be
// predicted and the cache misses in `dense`, so the walks are free of branches and the misses are prefetched.
#include <hwy/base.h>

#include <algorithm>

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

namespace {

/// Entries ahead: enough to cover a miss, few enough for the lines to be still there.
constexpr std::int64_t prefetch_ahead = 128;

/// Into the second-level cache, to which more lines can be on their way than to the first: there, stores alone keep all busy.
HWY_INLINE void prefetch(const void* place) { __builtin_prefetch(place, 1, 2); }

/// `value`, or what changes no sum, not even one of negative zeros. Bits, since compilers make a branch of a choice of values.
template <class T>
HWY_INLINE T value_if(bool wanted, T value) {
  constexpr auto neutral = std::bit_cast<Key<T>>(T{-0.0});
  const auto mask = static_cast<Key<T>>(-static_cast<Key<T>>(wanted));
  return std::bit_cast<T>(static_cast<Key<T>>((std::bit_cast<Key<T>>(value) & mask) | (neutral & ~mask)));
}

template <class T>
struct SparseView {
  const std::uint32_t* indices;
  const T* values;
};

template <class T>
struct SparseOutput {
  std::uint32_t* indices;
  T* values;
};

/// How far the merge of a[begin, a_end) and b[begin, b_end) has come.
struct MergePosition {
  std::int64_t a, a_end, b, b_end, out;

  [[nodiscard]] bool both_left() const { return a < a_end && b < b_end; }
};

template <class T>
HWY_INLINE void merge_step(SparseView<T> a, SparseView<T> b, SparseOutput<T> out, MergePosition& at) {
  const std::uint32_t a_index = a.indices[at.a], b_index = b.indices[at.b];
  const bool take_a = a_index <= b_index, take_b = b_index <= a_index;
  out.indices[at.out] = std::min(a_index, b_index);
  out.values[at.out] = value_if(take_a, a.values[at.a]) + value_if(take_b, b.values[at.b]);
  at.a += take_a;
  at.b += take_b;
  ++at.out;
}

template <class T>
std::int64_t append(SparseView<T> from, std::int64_t begin, std::int64_t end, SparseOutput<T> out, std::int64_t out_begin) {
  std::copy(from.indices + begin, from.indices + end, out.indices + out_begin);
  std::copy(from.values + begin, from.values + end, out.values + out_begin);
  return out_begin + end - begin;
}

template <class T>
HWY_INLINE std::int64_t merge_rest(SparseView<T> a, SparseView<T> b, SparseOutput<T> out, MergePosition at) {
  while (at.both_left()) merge_step(a, b, out, at);
  at.out = append(a, at.a, at.a_end, out, at.out);
  return append(b, at.b, at.b_end, out, at.out);
}

}  // namespace

template <class T>
std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,
                       const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values) {
  const SparseView<T> a{a_indices, a_values}, b{b_indices, b_values};
  const SparseOutput<T> out{out_indices, out_values};
  // A step waits for the one before it, so two independent halves advance together. The upper one starts where it would if no
  // indices were equal, and moves down afterwards.
  const std::int64_t a_half = a_count / 2;
  const std::int64_t b_half = a_count == 0 ? 0 : std::lower_bound(b_indices, b_indices + b_count, a_indices[a_half]) - b_indices;
  const std::int64_t upper_begin = a_half + b_half;
  MergePosition lower{0, a_half, 0, b_half, 0};
  MergePosition upper{a_half, a_count, b_half, b_count, upper_begin};
  while (lower.both_left() && upper.both_left()) {
    merge_step(a, b, out, lower);
    merge_step(a, b, out, upper);
  }
  const std::int64_t lower_count = merge_rest(a, b, out, lower);
  const std::int64_t upper_end = merge_rest(a, b, out, upper);
  if (lower_count == upper_begin) return upper_end;
  return append(SparseView<T>{out.indices, out.values}, upper_begin, upper_end, out, lower_count);
}

template <class T>
void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
            std::int64_t taken_count) {
  std::int64_t i = 0, t = 0;
  while (i < count && t < taken_count) {
    const std::uint32_t index = indices[i], taken_index = taken[t];
    // Too early if taken_index < index; then a later step writes the same element again.
    dense[index] = taken_index == index ? T{0} : values[i];
    prefetch(dense + indices[std::min(i + prefetch_ahead, count - 1)]);
    i += index <= taken_index;
    t += taken_index <= index;
  }
  scatter(dense, indices + i, values + i, count - i);
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

#define WEIR_INSTANTIATE(T)                                                                                                   \
  template std::int64_t merge_add(const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, \
                                  std::uint32_t*, T*);                                                                        \
  template void settle(T*, const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, std::int64_t);                 \
  template void clear_taken(T*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);                      \
  template void scatter(T*, const std::uint32_t*, const T*, std::int64_t);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
