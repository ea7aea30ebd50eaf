// sparse.cpp: entries of dense arrays by sorted index lists. They gain nothing from vectors; what costs is the branch per entry
// that cannot be predicted and the cache misses in `dense`, so the walks are free of branches and the misses are prefetched.
#include <hwy/base.h>

#include <algorithm>
#include <utility>

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

namespace {

/// Entries ahead: enough to cover a miss, few enough for the lines to be still there.
constexpr std::int64_t prefetch_ahead = 128;

/// Into the second-level cache, to which more lines can be on their way than to the first: there, stores alone keep all busy.
HWY_INLINE void prefetch(const void* place) { __builtin_prefetch(place, 1, 2); }

template <class T>
struct SparseView {
  const std::uint32_t* indices;
  const T* values;
};

/// Elements of `dense` to be written: they are fetched when a block of them is full, and written when the next one is.
template <class T>
class Writes {
 public:
  explicit Writes(T* dense) : dense_(dense) {}

  /// For so many more at least, of at most `wanted`: begins another block where they do not fit.
  std::int64_t room(std::int64_t wanted) {
    if (size_ + wanted > block) turn();
    return block - size_;
  }
  HWY_INLINE void add_if(bool wanted, std::uint32_t index, T value) {
    indices_[now_][size_] = index;
    values_[now_][size_] = value;
    size_ += wanted;
  }
  void finish() {
    turn();
    turn();
  }

 private:
  static constexpr std::int64_t block = 512;

  void turn() {
    for (std::int64_t i = 0; i < size_; ++i) prefetch(dense_ + indices_[now_][i]);
    now_ ^= 1;
    for (std::int64_t i = 0; i < fetched_; ++i) dense_[indices_[now_][i]] = values_[now_][i];
    fetched_ = std::exchange(size_, 0);
  }

  T* dense_;
  std::int64_t size_ = 0, fetched_ = 0;
  int now_ = 0;
  std::uint32_t indices_[2][block];
  T values_[2][block];
};

/// How far a walk over entries[entry, entries_end) and taken[taken, taken_end) has come.
struct SettlePosition {
  std::int64_t entry, entries_end, taken, taken_end;

  /// That it can take before one of the lists ends.
  [[nodiscard]] std::int64_t steps() const { return std::min(entries_end - entry, taken_end - taken); }
};

template <class T>
HWY_INLINE void settle_step(SparseView<T> entries, const std::uint32_t* taken, Key<T> keep_old, SettlePosition& at,
                            Writes<T>& writes) {
  const std::uint32_t index = entries.indices[at.entry], taken_index = taken[at.taken];
  const T value = entries.values[at.entry];
  const bool is_taken = index == taken_index;
  const auto zero_if_taken = static_cast<Key<T>>(Key<T>{is_taken} - 1);
  // Too early to say if taken_index < index.
  writes.add_if((index <= taken_index) & (is_taken | (key_of(value) >= keep_old)), index,
                std::bit_cast<T>(static_cast<Key<T>>(std::bit_cast<Key<T>>(value) & zero_if_taken)));
  at.entry += index <= taken_index;
  at.taken += taken_index <= index;
}

}  // namespace

template <class T>
void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
            std::int64_t taken_count, Key<T> keep_old) {
  Writes<T> writes(dense);
  const SparseView<T> entries{indices, values};
  // A step waits for the one before it, so two independent halves advance together.
  const std::int64_t half = count / 2;
  const std::int64_t taken_half = count == 0 ? 0 : std::lower_bound(taken, taken + taken_count, indices[half]) - taken;
  SettlePosition lower{0, half, 0, taken_half}, upper{half, count, taken_half, taken_count};
  while (std::min(lower.steps(), upper.steps()) > 0) {
    for (std::int64_t left = std::min({lower.steps(), upper.steps(), writes.room(2) / 2}); left > 0; --left) {
      settle_step(entries, taken, keep_old, lower, writes);
      settle_step(entries, taken, keep_old, upper, writes);
    }
  }
  for (SettlePosition* at : {&lower, &upper}) {
    while (at->steps() > 0) {
      for (std::int64_t left = std::min(at->steps(), writes.room(1)); left > 0; --left)
        settle_step(entries, taken, keep_old, *at, writes);
    }
    for (; at->entry < at->entries_end; ++at->entry) {
      if (key_of(values[at->entry]) < keep_old) continue;
      static_cast<void>(writes.room(1));
      writes.add_if(true, indices[at->entry], values[at->entry]);
    }
  }
  writes.finish();
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

#define WEIR_INSTANTIATE(T)                                                                                           \
  template void settle(T*, const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, std::int64_t, Key<T>); \
  template void clear_taken(T*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);              \
  template void scatter(T*, const std::uint32_t*, const T*, std::int64_t);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
