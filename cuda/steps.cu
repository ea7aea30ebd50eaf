// What optimizers do to weights. Compiled without fused multiplications and additions, so that weights and norms have the host's
// bits.
#include <cmath>

#include "launch.cuh"

namespace weir::kernels::cuda {
namespace {

constexpr int partials = 16, resident = 8;  // sums that run side by side, as kernels.hpp says; blocks of a multiprocessor
constexpr int per_thread = 4, tile = per_thread * threads_per_block;

/// Sums of `sums` numbers for each element of this block's piece of an array, in the host's order: while one warp adds up the tile
/// that is done, the others are at the next one. each(i, out) writes the numbers of element i.
template <int sums, class Each, class Result>
__device__ void sum_piece(std::int64_t begin, std::int64_t end, Each each, Result* found) {
  static_assert(sums * partials <= 32, "one warp adds");
  __shared__ double numbers[2][sums][tile];
  double partial = 0;
  int buffer = 0;
  for (std::int64_t first = begin; first < end; first += tile, buffer ^= 1) {
#pragma unroll
    for (int e = 0; e < per_thread; ++e) {
      const int at = e * threads_per_block + static_cast<int>(threadIdx.x);
      double of[sums] = {};
      if (first + at < end) each(first + at, of);
#pragma unroll
      for (int s = 0; s < sums; ++s) numbers[buffer][s][at] = of[s];
    }
    __syncthreads();
    if (threadIdx.x >= sums * partials) continue;
    const double* const mine = numbers[buffer][threadIdx.x / partials];
    for (int at = static_cast<int>(threadIdx.x % partials); at < tile; at += partials) partial += mine[at];
  }
  if (warp() != 0) return;
  for (int distance = partials / 2; distance > 0; distance /= 2) partial += __shfl_xor_sync(whole_warp, partial, distance);
  const double other = __shfl_sync(whole_warp, partial, (sums - 1) * partials);
  if (threadIdx.x == 0) *found = Each::result(partial, other);
}

/// The piece of this block.
template <int sums, class Each, class Result>
__device__ void sum_mine(std::int64_t count, std::int64_t block, Each each, Result* found) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * block, end = begin + block;
  sum_piece<sums>(begin, end < count ? end : count, each, found + blockIdx.x);
}

template <class T>
struct EachSquare {
  const T* x;

  __device__ void operator()(std::int64_t i, double* out) const {
    const double wide = x[i];
    out[0] = wide * wide;
  }
  static __device__ double result(double sum, double) { return sum; }
};

template <class T>
__device__ __forceinline__ T direction(T first, T second, T weight, const AdamFactors<T>& f) {
  return first / f.first_correction / (std::sqrt(second) / f.second_correction + f.epsilon) + f.decay * weight;
}

template <class T>
struct EachMoments {
  const T* gradient;
  const T* weights;
  T* first;
  T* second;
  AdamFactors<T> f;

  __device__ void operator()(std::int64_t i, double* out) const {
    const T g = gradient[i], weight = weights[i];
    const T m = f.beta1 * first[i] + (1 - f.beta1) * g, v = f.beta2 * second[i] + (1 - f.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    const double w = weight, u = direction(m, v, weight, f);
    out[0] = w * w;
    out[1] = u * u;
  }
  static __device__ SquaredNorms result(double weights, double other) { return {weights, other}; }
};

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    squared_norm_kernel(const T* x, std::int64_t count, std::int64_t block, double* found) {
  sum_mine<1>(count, block, EachSquare<T>{x}, found);
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    adam_moments_kernel(EachMoments<T> each, std::int64_t count, std::int64_t block, SquaredNorms* found) {
  sum_mine<2>(count, block, each, found);
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    momentum_step_kernel(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) {
    const T w = weights[i], v = momentum * velocity[i] + rate * (gradient[i] + decay * w);
    velocity[i] = v;
    weights[i] = w - v;
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    adam_step_kernel(const T* first, const T* second, T* weights, std::int64_t count, T rate, AdamFactors<T> factors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) {
    const T w = weights[i];
    weights[i] = w - rate * direction(first[i], second[i], w, factors);
  }
}

}  // namespace

template <class T>
void squared_norm(Queue queue, const T* x, std::int64_t count, std::int64_t block, double* found) {
  launch(queue, squared_norm_kernel<T>, tiles_of(count, block), x, count, block, found);
}

template <class T>
void momentum_step(Queue queue, const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  launch(queue, momentum_step_kernel<T>, resident_blocks(queue, count, threads_per_block, resident), gradient, weights, velocity,
         count, rate, decay, momentum);
}

template <class T>
void adam_moments(Queue queue, const T* gradient, const T* weights, T* first, T* second, std::int64_t count, std::int64_t block,
                  const AdamFactors<T>& factors, SquaredNorms* found) {
  launch(queue, adam_moments_kernel<T>, tiles_of(count, block), EachMoments<T>{gradient, weights, first, second, factors}, count,
         block, found);
}

template <class T>
void adam_step(Queue queue, const T* first, const T* second, T* weights, std::int64_t count, T rate,
               const AdamFactors<T>& factors) {
  launch(queue, adam_step_kernel<T>, resident_blocks(queue, count, threads_per_block, resident), first, second, weights, count,
         rate, factors);
}

#define WEIR_INSTANTIATE(T)                                                                                                        \
  template void squared_norm(Queue, const T*, std::int64_t, std::int64_t, double*);                                                \
  template void momentum_step(Queue, const T*, T*, T*, std::int64_t, T, T, T);                                                     \
  template void adam_moments(Queue, const T*, const T*, T*, T*, std::int64_t, std::int64_t, const AdamFactors<T>&, SquaredNorms*); \
  template void adam_step(Queue, const T*, const T*, T*, std::int64_t, T, const AdamFactors<T>&);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
