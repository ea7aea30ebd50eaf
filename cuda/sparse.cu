// Sorted sparse vectors: merges two, summing equal indices, and scatters entries into dense arrays.
#include "launch.cuh"

namespace weir::kernels::cuda {
namespace {

constexpr int steps = 8;  // of the merge, per thread
constexpr std::int64_t steps_per_block = std::int64_t{steps} * threads_per_block;

template <class T>
struct Merge {
  const std::uint32_t* a_indices;
  const T* a_values;
  const std::uint32_t* b_indices;
  const T* b_values;
  Extent a_count, b_count;
  std::uint32_t* out_indices;
  T* out_values;
  TileStates states;
  std::int64_t* found;
};

/// Returns how many of the first `step` entries of the merged list are from a, if a's come before b's equal ones. The result is
/// between `low` and `high` (Green, McColl and Bader, ICS 2012).
template <class T>
__device__ std::int64_t merge_path(const Merge<T>& m, std::int64_t step, std::int64_t low, std::int64_t high) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (m.a_indices[middle] <= m.b_indices[step - 1 - middle])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) merge_add_kernel(Merge<T> m) {
  const std::int64_t a_count = exact(m.a_count), b_count = exact(m.b_count), all = a_count + b_count;
  const std::int64_t tile_begin = static_cast<std::int64_t>(blockIdx.x) * steps_per_block;

  // Find where the tile's part of a begins and ends: threads 0 and 1 search in all of a, then every thread in this part.
  __shared__ std::int64_t part[2];
  if (threadIdx.x < 2) {
    const std::int64_t step = min(all, tile_begin + static_cast<std::int64_t>(threadIdx.x) * steps_per_block);
    part[threadIdx.x] = merge_path(m, step, max(std::int64_t{0}, step - b_count), min(step, a_count));
  }
  __syncthreads();
  const std::int64_t begin = min(all, tile_begin + static_cast<std::int64_t>(threadIdx.x) * steps);
  std::int64_t a = merge_path(m, begin, max(part[0], begin - b_count), min(begin, part[1]));
  std::int64_t b = begin - a;

  std::uint32_t indices[steps];
  T values[steps];
  unsigned emitted = 0;
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    if (begin + i >= all) continue;
    const bool has_a = a < a_count, has_b = b < b_count;
    const std::uint32_t a_index = has_a ? m.a_indices[a] : 0, b_index = has_b ? m.b_indices[b] : 0;
    if (has_a && (!has_b || a_index <= b_index)) {
      indices[i] = a_index;
      values[i] = has_b && a_index == b_index ? m.a_values[a] + m.b_values[b] : m.a_values[a];
      emitted |= 1u << i;
      ++a;
    } else {
      indices[i] = b_index;
      values[i] = m.b_values[b];
      const bool added = a > 0 && m.a_indices[a - 1] == b_index;
      emitted |= static_cast<unsigned>(!added) << i;
      ++b;
    }
  }
  std::uint64_t total;
  std::uint64_t number = scan_block(static_cast<std::uint64_t>(__popc(emitted)), total);
  const std::uint64_t before = m.states.before_in_block(total);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *m.found = static_cast<std::int64_t>(before + total);
  number += before;
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    if ((emitted >> i & 1) == 0) continue;
    m.out_indices[number] = indices[i];
    m.out_values[number++] = values[i];
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) settle_kernel(T* dense, const std::uint32_t* indices, const T* values,
                                                                   Extent count, const std::uint32_t* taken, Extent taken_count) {
  for_mine(exact(count), [&](std::int64_t i) {
    const std::uint32_t index = indices[i];
    const std::int64_t end = exact(taken_count), t = lower_bound(taken, 0, end, index);
    dense[index] = t < end && taken[t] == index ? T{0} : values[i];
  });
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    scatter_add_kernel(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) { dense[indices[i]] += values[i]; });
}

template <class G, class T>
__global__ void __launch_bounds__(threads_per_block)
    scatter_kernel(G* dense, const std::uint32_t* indices, const T* values, Extent count) {
  for_mine(exact(count), [&](std::int64_t i) { dense[indices[i]] = narrow_to<G>(values[i]); });
}

}  // namespace

template <class T>
void merge_add(Queue queue, const std::uint32_t* a_indices, const T* a_values, Extent a_count, const std::uint32_t* b_indices,
               const T* b_values, Extent b_count, std::uint32_t* out_indices, T* out_values, std::int64_t* found) {
  const std::int64_t tiles = tiles_of(a_count.most + b_count.most, steps_per_block);
  clear(queue, queue.scratch, tiles * 8);
  launch(queue, merge_add_kernel<T>, tiles,
         Merge<T>{a_indices,
                  a_values,
                  b_indices,
                  b_values,
                  a_count,
                  b_count,
                  out_indices,
                  out_values,
                  {reinterpret_cast<unsigned long long*>(queue.scratch)},
                  found});
}

template <class T>
void settle(Queue queue, T* dense, const std::uint32_t* indices, const T* values, Extent count, const std::uint32_t* taken,
            Extent taken_count) {
  launch(queue, settle_kernel<T>, tiles_of(count.most, threads_per_block), dense, indices, values, count, taken, taken_count);
}

template <class T>
void scatter_add(Queue queue, T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  launch(queue, scatter_add_kernel<T>, tiles_of(count, threads_per_block), dense, indices, values, count);
}

template <class G, class T>
void scatter(Queue queue, G* dense, const std::uint32_t* indices, const T* values, Extent count) {
  launch(queue, scatter_kernel<G, T>, tiles_of(count.most, threads_per_block), dense, indices, values, count);
}

#define WEIR_INSTANTIATE(T)                                                                                                      \
  template void merge_add(Queue, const std::uint32_t*, const T*, Extent, const std::uint32_t*, const T*, Extent, std::uint32_t*, \
                          T*, std::int64_t*);                                                                                    \
  template void settle(Queue, T*, const std::uint32_t*, const T*, Extent, const std::uint32_t*, Extent);                         \
  template void scatter_add(Queue, T*, const std::uint32_t*, const T*, std::int64_t);                                            \
  template void scatter(Queue, T*, const std::uint32_t*, const T*, Extent);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
template void scatter(Queue, float16*, const std::uint32_t*, const float*, Extent);
template void scatter(Queue, bfloat16*, const std::uint32_t*, const float*, Extent);
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
