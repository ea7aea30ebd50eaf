// Kernels for sorted entries between merging and encoding: count them by region and at a cut, shift, divide, and round them for
// the wire.
#include "cuda/wire.hpp"
#include "launch.cuh"

namespace weir::kernels::cuda {
namespace {

/// Has one thread per region.
__global__ void __launch_bounds__(threads_per_block)
    count_regions_kernel(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                         std::uint64_t* counts) {
  for_mine(regions, [&](std::int64_t region) {
    counts[region] = static_cast<std::uint64_t>(lower_bound(indices, 0, count, boundaries[region + 1]) -
                                                lower_bound(indices, 0, count, boundaries[region]));
  });
}

__global__ void __launch_bounds__(threads_per_block)
    quantiles_kernel(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out) {
  for_mine(parts - 1, [&](std::int64_t i) { out[i] = indices[count * (i + 1) / parts]; });
}

__global__ void __launch_bounds__(threads_per_block)
    shift_kernel(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out) {
  for_mine(count, [&](std::int64_t i) { out[i] = indices[i] + offset; });
}

/// Lies in scratch.
struct CutSums {
  unsigned arrivals;
  unsigned long long above, equal;
};

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    count_cut_kernel(const T* x, Extent extent, Key<T> cut, CutSums* sums, CutCounts* found) {
  const std::int64_t count = exact(extent), stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  std::uint64_t above = 0, equal = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < count; i += stride) {
    const Key<T> key = key_of(x[i]);
    above += key > cut;
    equal += key == cut;
  }
  std::uint64_t all_above, all_equal;
  scan_block(above, all_above);
  scan_block(equal, all_equal);
  if (threadIdx.x == 0) {
    atomicAdd(&sums->above, static_cast<unsigned long long>(all_above));
    atomicAdd(&sums->equal, static_cast<unsigned long long>(all_equal));
  }
  if (!is_last_block(&sums->arrivals) || threadIdx.x != 0) return;
  *found = {static_cast<std::int64_t>(atomicAdd(&sums->above, 0ull)), static_cast<std::int64_t>(atomicAdd(&sums->equal, 0ull))};
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) divide_kernel(T* x, Extent extent, T divisor) {
  for_mine(exact(extent), [&](std::int64_t i) { x[i] /= divisor; });
}

template <class Narrow>
struct Rounding {
  float scale, back;  // powers of two, for values that travel halved

  explicit Rounding(int halvings) : scale(std::ldexp(1.0f, -halvings)), back(std::ldexp(1.0f, halvings)) {}
  __device__ __forceinline__ float round(float value) const {
    return scaled(widen(narrow_to<Narrow, true>(scaled(value, scale))), back);
  }
  /// Returns the value less its rounded value; zero if the rounded value is not finite.
  __device__ __forceinline__ float loss(float value) const {
    const float rounded = round(value);
    return key_of(rounded) < key_infinity<float> ? value - rounded : 0.0f;
  }
};

template <class Narrow>
__global__ void __launch_bounds__(threads_per_block)
    round_kernel(Rounding<Narrow> rounding, const float* in, float* out, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) { out[i] = rounding.round(in[i]); });
}

template <class Narrow>
__global__ void __launch_bounds__(threads_per_block) loss_kernel(Rounding<Narrow> rounding, float* values, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) { values[i] = rounding.loss(values[i]); });
}

template <class Narrow>
__global__ void __launch_bounds__(threads_per_block)
    return_loss_kernel(Rounding<Narrow> rounding, float* dense, const std::uint32_t* indices, const float* values,
                       std::int64_t count, const std::uint32_t* taken, std::int64_t taken_count) {
  for_mine(count, [&](std::int64_t i) {
    const std::uint32_t index = indices[i];
    const std::int64_t t = lower_bound(taken, 0, taken_count, index);
    if (t == taken_count || taken[t] != index) return;
    const float loss = rounding.loss(values[i]);
    dense[index] += loss;
  });
}

/// Calls f with the rounding of values that travel.
template <class F>
void with_rounding(wire::Wire wire, F f) {
  wire.values == WireValues::bfloat16 ? f(Rounding<bfloat16>(0)) : f(Rounding<float16>(wire.halvings));
}

}  // namespace

void count_regions(Queue queue, const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                   std::uint64_t* counts) {
  launch(queue, count_regions_kernel, tiles_of(regions, threads_per_block), indices, count, boundaries, regions, counts);
}

void quantiles(Queue queue, const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out) {
  launch(queue, quantiles_kernel, tiles_of(parts, threads_per_block), indices, count, parts, out);
}

void shift_indices(Queue queue, const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out) {
  launch(queue, shift_kernel, tiles_of(count, threads_per_block), indices, count, offset, out);
}

template <class T>
void count_cut(Queue queue, const T* x, Extent count, Key<T> key, CutCounts* found) {
  auto* const sums = reinterpret_cast<CutSums*>(queue.scratch);
  clear(queue, sums, sizeof *sums);
  launch(queue, count_cut_kernel<T>, strided_blocks(count.most, 16 * threads_per_block), x, count, key, sums, found);
}

template <class T>
void divide(Queue queue, T* x, Extent count, T divisor) {
  launch(queue, divide_kernel<T>, tiles_of(count.most, threads_per_block), x, count, divisor);
}

#define WEIR_INSTANTIATE(T)                                             \
  template void count_cut(Queue, const T*, Extent, Key<T>, CutCounts*); \
  template void divide(Queue, T*, Extent, T);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda

namespace weir::wire::cuda {

using namespace weir::kernels::cuda;

void round_values(Queue queue, Wire wire, const float* in, float* out, std::int64_t count) {
  with_rounding(wire, [&]<class Narrow>(Rounding<Narrow> rounding) {
    launch(queue, round_kernel<Narrow>, tiles_of(count, threads_per_block), rounding, in, out, count);
  });
}

void subtract_rounded(Queue queue, Wire wire, float* values, std::int64_t count) {
  with_rounding(wire, [&]<class Narrow>(Rounding<Narrow> rounding) {
    launch(queue, loss_kernel<Narrow>, tiles_of(count, threads_per_block), rounding, values, count);
  });
}

void return_rounded(Queue queue, Wire wire, float* dense, const std::uint32_t* indices, const float* values, std::int64_t count,
                    const std::uint32_t* taken, std::int64_t taken_count) {
  with_rounding(wire, [&]<class Narrow>(Rounding<Narrow> rounding) {
    launch(queue, return_loss_kernel<Narrow>, tiles_of(count, threads_per_block), rounding, dense, indices, values, count, taken,
           taken_count);
  });
}

}  // namespace weir::wire::cuda
