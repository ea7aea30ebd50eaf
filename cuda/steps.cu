// Steps of optimizers on weights. Compiled without fused multiplications and additions, so that weights and norms have the host's
// bits.
#include <cmath>

#include "kernels/narrow.hpp"
#include "launch.cuh"

namespace weir::kernels::cuda {
namespace {

constexpr int partials = 16, resident = 8;  // sums that run side by side, as in kernels.hpp; blocks of a multiprocessor
constexpr int per_thread = 4, tile = per_thread * threads_per_block;

/// Sums `sums` numbers per element over this block's piece of an array, in the host's order. While one warp sums the numbers of a
/// tile, the others compute those of the next one. each(i, out) writes the numbers of element i.
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

/// Sums the piece of this block.
template <int sums, class Each, class Result>
__device__ void sum_mine(std::int64_t count, std::int64_t block, Each each, Result* found) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * block, end = begin + block;
  sum_piece<sums>(begin, end < count ? end : count, each, found + blockIdx.x);
}

template <class G>
struct EachSquare {
  const G* x;

  __device__ void operator()(std::int64_t i, double* out) const {
    const double wide = widen(x[i]);
    out[0] = wide * wide;
  }
  static __device__ double result(double sum, double) { return sum; }
};

template <class T>
__device__ __forceinline__ T direction(T first, T second, T weight, const AdamFactors<T>& f) {
  return first / f.first_correction / (std::sqrt(second) / f.second_correction + f.epsilon) + f.decay * weight;
}

template <class T>
struct PlainWeights {
  T* at;

  __device__ T take(std::int64_t i) const { return at[i]; }
  __device__ void put(std::int64_t i, T weight) const { at[i] = weight; }
};

template <class G>
struct WidenedWeights {
  NarrowWeights<G> at;

  __device__ float take(std::int64_t i) const {
    const float wide = at.wide[i];
    const G given = at.given[i];
    if (narrow_to<G, true>(wide).bits == given.bits) return wide;
    return at.wide[i] = widen(given);
  }
  __device__ void put(std::int64_t i, float weight) const {
    at.wide[i] = weight;
    at.given[i] = narrow_to<G, true>(weight);
  }
};

template <class G, class T, class Weights>
struct EachMoments {
  const G* gradient;
  Weights weights;
  T* first;
  T* second;
  AdamFactors<T> f;

  __device__ void operator()(std::int64_t i, double* out) const {
    const T g = widen(gradient[i]), weight = weights.take(i);
    const T m = f.beta1 * first[i] + (1 - f.beta1) * g, v = f.beta2 * second[i] + (1 - f.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    const double w = weight, u = direction(m, v, weight, f);
    out[0] = w * w;
    out[1] = u * u;
  }
  static __device__ SquaredNorms result(double weights, double other) { return {weights, other}; }
};

template <class G>
__global__ void __launch_bounds__(threads_per_block)
    squared_norm_kernel(const G* x, std::int64_t count, std::int64_t block, double* found) {
  sum_mine<1>(count, block, EachSquare<G>{x}, found);
}

template <class Each>
__global__ void __launch_bounds__(threads_per_block)
    adam_moments_kernel(Each each, std::int64_t count, std::int64_t block, SquaredNorms* found) {
  sum_mine<2>(count, block, each, found);
}

template <class G, class T, class Weights>
__global__ void __launch_bounds__(threads_per_block)
    momentum_step_kernel(const G* gradient, Weights weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) {
    const T w = weights.take(i), v = momentum * velocity[i] + rate * (widen(gradient[i]) + decay * w);
    velocity[i] = v;
    weights.put(i, w - v);
  }
}

template <class T, class Weights>
__global__ void __launch_bounds__(threads_per_block)
    adam_step_kernel(const T* first, const T* second, Weights weights, std::int64_t count, T rate, AdamFactors<T> factors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) {
    const T w = weights.take(i);
    weights.put(i, w - rate * direction(first[i], second[i], w, factors));
  }
}

template <class G, class T, class Weights>
void put_momentum_step(Queue queue, const G* gradient, Weights weights, T* velocity, std::int64_t count, T rate, T decay,
                       T momentum) {
  launch(queue, momentum_step_kernel<G, T, Weights>, resident_blocks(queue, count, threads_per_block, resident), gradient, weights,
         velocity, count, rate, decay, momentum);
}

template <class G, class T, class Weights>
void put_adam_moments(Queue queue, const G* gradient, Weights weights, T* first, T* second, std::int64_t count, std::int64_t block,
                      const AdamFactors<T>& factors, SquaredNorms* found) {
  using Each = EachMoments<G, T, Weights>;
  launch(queue, adam_moments_kernel<Each>, tiles_of(count, block), Each{gradient, weights, first, second, factors}, count, block,
         found);
}

template <class T, class Weights>
void put_adam_step(Queue queue, const T* first, const T* second, Weights weights, std::int64_t count, T rate,
                   const AdamFactors<T>& factors) {
  launch(queue, adam_step_kernel<T, Weights>, resident_blocks(queue, count, threads_per_block, resident), first, second, weights,
         count, rate, factors);
}

}  // namespace

template <class G>
void squared_norm(Queue queue, const G* x, std::int64_t count, std::int64_t block, double* found) {
  launch(queue, squared_norm_kernel<G>, tiles_of(count, block), x, count, block, found);
}

template <class T>
void momentum_step(Queue queue, const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  put_momentum_step(queue, gradient, PlainWeights<T>{weights}, velocity, count, rate, decay, momentum);
}

template <class T>
void adam_moments(Queue queue, const T* gradient, const T* weights, T* first, T* second, std::int64_t count, std::int64_t block,
                  const AdamFactors<T>& factors, SquaredNorms* found) {
  put_adam_moments(queue, gradient, PlainWeights<const T>{weights}, first, second, count, block, factors, found);
}

template <class T>
void adam_step(Queue queue, const T* first, const T* second, T* weights, std::int64_t count, T rate,
               const AdamFactors<T>& factors) {
  put_adam_step(queue, first, second, PlainWeights<T>{weights}, count, rate, factors);
}

template <class G>
void momentum_step(Queue queue, const G* gradient, NarrowWeights<G> weights, float* velocity, std::int64_t count, float rate,
                   float decay, float momentum) {
  put_momentum_step(queue, gradient, WidenedWeights<G>{weights}, velocity, count, rate, decay, momentum);
}

template <class G>
void adam_moments(Queue queue, const G* gradient, NarrowWeights<G> weights, float* first, float* second, std::int64_t count,
                  std::int64_t block, const AdamFactors<float>& factors, SquaredNorms* found) {
  put_adam_moments(queue, gradient, WidenedWeights<G>{weights}, first, second, count, block, factors, found);
}

template <class G>
void adam_step(Queue queue, const float* first, const float* second, NarrowWeights<G> weights, std::int64_t count, float rate,
               const AdamFactors<float>& factors) {
  put_adam_step(queue, first, second, WidenedWeights<G>{weights}, count, rate, factors);
}

#define WEIR_INSTANTIATE(T)                                                                                                        \
  template void squared_norm(Queue, const T*, std::int64_t, std::int64_t, double*);                                                \
  template void momentum_step(Queue, const T*, T*, T*, std::int64_t, T, T, T);                                                     \
  template void adam_moments(Queue, const T*, const T*, T*, T*, std::int64_t, std::int64_t, const AdamFactors<T>&, SquaredNorms*); \
  template void adam_step(Queue, const T*, const T*, T*, std::int64_t, T, const AdamFactors<T>&);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

#define WEIR_INSTANTIATE(G)                                                                                  \
  template void squared_norm(Queue, const G*, std::int64_t, std::int64_t, double*);                          \
  template void momentum_step(Queue, const G*, NarrowWeights<G>, float*, std::int64_t, float, float, float); \
  template void adam_moments(Queue, const G*, NarrowWeights<G>, float*, float*, std::int64_t, std::int64_t,  \
                             const AdamFactors<float>&, SquaredNorms*);                                      \
  template void adam_step(Queue, const float*, const float*, NarrowWeights<G>, std::int64_t, float, const AdamFactors<float>&);
WEIR_INSTANTIATE(float16)
WEIR_INSTANTIATE(bfloat16)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
