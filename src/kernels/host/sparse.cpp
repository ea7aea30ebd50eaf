// sparse.cpp: kernels on sorted index lists. They gain nothing from vectors; what costs is the branch per entry that cannot be
// predicted and the cache misses in `dense`, so the walks are free of branches and the misses are prefetched.
#include <algorithm>

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

namespace {

/// Entries ahead: enough to cover a miss, few enough for the lines to be still there.
constexpr std::int64_t prefetch_ahead = 32;

/// A value that changes no sum, not even one of negative zeros.
template <class T>
constexpr Key<T> neutral = Key<T>{1} << key_bits<T>;

template <class T>
T value_if(bool wanted, T value) {
  const auto mask = static_cast<Key<T>>(-static_cast<Key<T>>(wanted));
  return std::bit_cast<T>(static_cast<Key<T>>((std::bit_cast<Key<T>>(value) & mask) | (neutral<T> & ~mask)));
}

}  // namespace

template <class T>
std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,
                       const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values) {
  std::int64_t a = 0, b = 0, out = 0;
  while (a < a_count && b < b_count) {
    const std::uint32_t a_index = a_indices[a], b_index = b_indices[b];
    const bool take_a = a_index <= b_index, take_b = b_index <= a_index;
    out_indices[out] = take_a ? a_index : b_index;
    out_values[out] = value_if(take_a, a_values[a]) + value_if(take_b, b_values[b]);
    a += take_a;
    b += take_b;
    ++out;
  }
  const std::int64_t a_left = a_count - a, b_left = b_count - b;
  std::copy_n(a_indices + a, a_left, out_indices + out);
  std::copy_n(a_values + a, a_left, out_values + out);
  out += a_left;
  std::copy_n(b_indices + b, b_left, out_indices + out);
  std::copy_n(b_values + b, b_left, out_values + out);
  return out + b_left;
}

template <class T>
void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
            std::int64_t taken_count) {
  std::int64_t i = 0, t = 0;
  while (i < count && t < taken_count) {
    const std::uint32_t index = indices[i], taken_index = taken[t];
    // Too early if taken_index < index; then a later step writes the same element again.
    dense[index] = taken_index == index ? T{0} : values[i];
    __builtin_prefetch(dense + indices[std::min(i + prefetch_ahead, count - 1)], 1);
    i += index <= taken_index;
    t += taken_index <= index;
  }
  scatter(dense, indices + i, values + i, count - i);
}

template <class T>
void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + prefetch_ahead < count; ++i) {
    __builtin_prefetch(dense + indices[i + prefetch_ahead], 1);
    dense[indices[i]] = values[i];
  }
  for (; i < count; ++i) dense[indices[i]] = values[i];
}

#define WEIR_INSTANTIATE(T)                                                                                                      \
  template std::int64_t merge_add(const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t,    \
                                  std::uint32_t*, T*);                                                                           \
  template void settle(T*, const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, std::int64_t);                    \
  template void scatter(T*, const std::uint32_t*, const T*, std::int64_t);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
