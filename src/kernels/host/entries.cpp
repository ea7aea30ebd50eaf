// entries.cpp: kernels on selected entries and on samples.
#include <algorithm>

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

template <class T>
void scatter_add(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dense[indices[i]] += values[i];
}

template <class T>
void sample(const T* x, const T* y, std::int64_t samples, std::int64_t stride, std::int64_t rest, std::int64_t offset, T* out) {
  if (samples == 0) return;
  // A division for each entry would take longer than everything else here.
  std::int64_t position = offset, remainder = 0;
  stride += rest / samples;
  rest %= samples;
  for (std::int64_t i = 0; i < samples; ++i) {
    out[i] = y != nullptr ? x[position] + y[position] : x[position];
    position += stride;
    remainder += rest;
    const bool carries = remainder >= samples;
    position += carries ? 1 : 0;
    remainder -= carries ? samples : 0;
  }
}

void count_regions(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                   std::uint64_t* counts) {
  const std::uint32_t* from = std::lower_bound(indices, indices + count, boundaries[0]);
  for (int j = 0; j < regions; ++j) {
    const std::uint32_t* const to = std::lower_bound(from, indices + count, boundaries[j + 1]);
    counts[j] = static_cast<std::uint64_t>(to - from);
    from = to;
  }
}

void quantiles(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out) {
  for (int j = 1; j < parts; ++j) out[j - 1] = indices[count * j / parts];
}

void shift_indices(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = indices[i] + offset;
}

template <class T>
void roll_back(const T* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices, const T* held_values,
               std::int64_t held, Key<T> keep_old) {
  std::int64_t from = 0;
  for (std::int64_t next = 0; next <= held; ++next) {
    if (next < held && key_of(held_values[next]) < keep_old) continue;
    const std::int64_t to = next < held ? held_indices[next] : count;
    for (std::int64_t i = from; i < to; ++i) {
      if (key_of(gradient[i]) < key_infinity<T>) residual[i] -= gradient[i];  // others were never added
    }
    from = to + 1;
  }
}

#define WEIR_INSTANTIATE(T)                                                                             \
  template void scatter_add(T*, const std::uint32_t*, const T*, std::int64_t);                          \
  template void sample(const T*, const T*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*); \
  template void roll_back(const T*, T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, Key<T>);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
