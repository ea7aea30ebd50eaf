// Operations on each element (add, scale, zero), and sums over all elements.
#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

constexpr std::int64_t elements_per_block = 16 * threads_per_block;

/// Calls f(i) for this thread's share of 0, ..., count - 1.
template <class F>
__device__ __forceinline__ void for_mine(std::int64_t count, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < count; i += stride) f(i);
}

/// The number of elements that a thread handles at once: 16 bytes, or one if an array is not aligned to 16 bytes.
template <class T, bool aligned>
inline constexpr int step = aligned ? 16 / sizeof(T) : 1;

template <class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block) add_kernel(const T* x, T* y, std::int64_t count) {
  constexpr int size = step<T, aligned>;
  using Piece = Vector<T, size>;
  const std::int64_t vectors = count / size;
  for_mine(vectors, [&](std::int64_t v) {
    const Piece a = reinterpret_cast<const Piece*>(x)[v];
    Piece b = reinterpret_cast<Piece*>(y)[v];
#pragma unroll
    for (int e = 0; e < size; ++e) b.at[e] += a.at[e];
    reinterpret_cast<Piece*>(y)[v] = b;
  });
  for_mine(count - vectors * size, [&](std::int64_t i) { y[vectors * size + i] += x[vectors * size + i]; });
}

template <class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block) scale_kernel(T* x, std::int64_t count, T factor) {
  constexpr int size = step<T, aligned>;
  using Piece = Vector<T, size>;
  const std::int64_t vectors = count / size;
  for_mine(vectors, [&](std::int64_t v) {
    Piece a = reinterpret_cast<Piece*>(x)[v];
#pragma unroll
    for (int e = 0; e < size; ++e) a.at[e] *= factor;
    reinterpret_cast<Piece*>(x)[v] = a;
  });
  for_mine(count - vectors * size, [&](std::int64_t i) { x[vectors * size + i] *= factor; });
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) rescale_kernel(T* x, std::int64_t count, T factor) {
  for_mine(count, [&](std::int64_t i) { x[i] = rescaled(x[i], factor); });
}

template <class G, class T>
__global__ void __launch_bounds__(threads_per_block)
    sample_kernel(const G* gradient, const T* residual, std::int64_t samples, std::int64_t stride, std::int64_t rest,
                  std::int64_t offset, T* out) {
  for_mine(samples, [&](std::int64_t i) {
    const std::int64_t position = i * stride + i * rest / samples + offset;
    const T value = widen(gradient[position]);
    out[i] = residual != nullptr ? residual[position] + value : value;
  });
}

template <class G, class T>
__global__ void __launch_bounds__(threads_per_block) subtract_finite_kernel(const G* gradient, T* residual, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) {
    const T value = widen(gradient[i]);
    if (key_of(value) < key_infinity<T>) residual[i] -= value;
  });
}

/// Copies the residual's values of entries with key >= keep_old to `olds`, or back.
template <class T, bool save>
__global__ void __launch_bounds__(threads_per_block)
    keep_olds_kernel(T* residual, const std::uint32_t* indices, const T* values, std::int64_t count, Key<T> keep_old, T* olds) {
  for_mine(count, [&](std::int64_t i) {
    if (key_of(values[i]) < keep_old) return;
    if constexpr (save)
      olds[i] = residual[indices[i]];
    else
      residual[indices[i]] = olds[i];
  });
}

/// What Moments or Exceedances sum.
template <class T>
struct Sums {
  std::int64_t count;
  double first, second;
  Key<T> largest;
};

template <class T>
struct AddSums {
  __device__ Sums<T> operator()(const Sums<T>& a, const Sums<T>& b) const {
    return {a.count + b.count, a.first + b.first, a.second + b.second, a.largest > b.largest ? a.largest : b.largest};
  }
};

/// Lies in scratch.
template <class T>
struct Partial {
  unsigned arrivals;
  Sums<T> of_block[1024];
};

/// Sets *found to the result of summing each value of x + y; the same on every GPU.
template <bool aligned, class G, class T, class Each, class Result>
__global__ void __launch_bounds__(threads_per_block, 4)
    sum_kernel(const G* x, const T* y, Extent extent, Partial<T>* partial, Each each, Result* found) {
  Sums<T> sums{};
  for_tiles<T, aligned>(x, y, exact(extent), [&](T value) { each.add(sums, value); });
  sums = reduce_block(sums, AddSums<T>{});
  if (threadIdx.x == 0) partial->of_block[blockIdx.x] = sums;
  if (!is_last_block(&partial->arrivals)) return;
  sums = {};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += threads_per_block) sums = AddSums<T>{}(sums, partial->of_block[b]);
  sums = reduce_block(sums, AddSums<T>{});
  if (threadIdx.x == 0) *found = Each::result(sums);
}

template <class T>
struct EachMoment {
  __device__ void add(Sums<T>& sums, T value) const {
    const double wide = value;
    const Key<T> key = key_of(value);
    ++sums.count;
    sums.first += wide;
    sums.second += wide * wide;
    sums.largest = key > sums.largest ? key : sums.largest;
  }
  static __device__ Moments<T> result(const Sums<T>& sums) { return {sums.count, sums.first, sums.second, sums.largest}; }
};

template <class T>
struct EachExceedance {
  Key<T> threshold;
  __device__ void add(Sums<T>& sums, T value) const {
    const Key<T> key = key_of(value);
    if (key < threshold) return;
    ++sums.count;
    sums.first += value < 0 ? -static_cast<double>(value) : static_cast<double>(value);
    sums.largest = key > sums.largest ? key : sums.largest;
  }
  static __device__ Exceedances<T> result(const Sums<T>& sums) { return {sums.count, sums.first, sums.largest}; }
};

template <class T>
struct EachNonFinite {
  __device__ void add(Sums<T>& sums, T value) const { sums.count += key_of(value) >= key_infinity<T>; }
  static __device__ std::int64_t result(const Sums<T>& sums) { return sums.count; }
};

template <class G, class T, class Each, class Result>
void run_sum(const Queue& queue, const G* x, const T* y, Extent count, Each each, Result* found) {
  auto* const partial = reinterpret_cast<Partial<T>*>(queue.scratch);
  clear(queue, &partial->arrivals, sizeof partial->arrivals);
  const bool aligned = is_aligned(x, sizeof(G) * width<T>) && is_aligned(y, sizeof(T) * width<T>);
  launch(queue, aligned ? sum_kernel<true, G, T, Each, Result> : sum_kernel<false, G, T, Each, Result>,
         strided_blocks(count.most, tile_size<T>), x, y, count, partial, each, found);
}

}  // namespace

std::int64_t scratch_bytes(std::int64_t count) {
  constexpr std::int64_t least = 64 * 1024;  // histograms, partial sums
  return std::max(least, divide_up(count, 2048) * 16 + 256);
}

template <class T>
void add(Queue queue, const T* x, T* y, std::int64_t count) {
  const bool aligned = is_aligned(x, 16) && is_aligned(y, 16);
  launch(queue, aligned ? add_kernel<T, true> : add_kernel<T, false>, tiles_of(count, elements_per_block), x, y, count);
}

template <class T>
void scale(Queue queue, T* x, std::int64_t count, T factor) {
  launch(queue, is_aligned(x, 16) ? scale_kernel<T, true> : scale_kernel<T, false>, tiles_of(count, elements_per_block), x, count,
         factor);
}

template <class T>
void rescale(Queue queue, T* x, std::int64_t count, T factor) {
  launch(queue, rescale_kernel<T>, tiles_of(count, elements_per_block), x, count, factor);
}

template <class G, class T>
void sample(Queue queue, const G* gradient, const T* residual, std::int64_t samples, std::int64_t stride, std::int64_t rest,
            std::int64_t offset, T* out) {
  launch(queue, sample_kernel<G, T>, tiles_of(samples, threads_per_block), gradient, residual, samples, stride, rest, offset, out);
}

template <class G, class T>
void roll_back(Queue queue, const G* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices,
               const T* held_values, std::int64_t held, Key<T> keep_old, T* olds) {
  const std::int64_t blocks = tiles_of(held, threads_per_block);
  launch(queue, keep_olds_kernel<T, true>, blocks, residual, held_indices, held_values, held, keep_old, olds);
  launch(queue, subtract_finite_kernel<G, T>, tiles_of(count, elements_per_block), gradient, residual, count);
  launch(queue, keep_olds_kernel<T, false>, blocks, residual, held_indices, held_values, held, keep_old, olds);
}

template <class T>
void fill_zero(Queue queue, T* x, std::int64_t count) {
  clear(queue, x, count * static_cast<std::int64_t>(sizeof(T)));
}

template <class G, class T>
void moments(Queue queue, const G* x, const T* y, Extent count, Moments<T>* found) {
  run_sum(queue, x, y, count, EachMoment<T>{}, found);
}

template <class G, class T>
void exceedances(Queue queue, const G* x, const T* y, Extent count, Key<T> threshold, Exceedances<T>* found) {
  run_sum(queue, x, y, count, EachExceedance<T>{threshold}, found);
}

template <class T>
void count_non_finite(Queue queue, const T* x, Extent count, std::int64_t* found) {
  run_sum(queue, x, static_cast<const T*>(nullptr), count, EachNonFinite<T>{}, found);
}

#define WEIR_INSTANTIATE(T)                             \
  template void add(Queue, const T*, T*, std::int64_t); \
  template void scale(Queue, T*, std::int64_t, T);      \
  template void rescale(Queue, T*, std::int64_t, T);    \
  template void fill_zero(Queue, T*, std::int64_t);     \
  template void count_non_finite(Queue, const T*, Extent, std::int64_t*);
#define WEIR_INSTANTIATE_GRADIENT(G, T)                                                                        \
  template void moments(Queue, const G*, const T*, Extent, Moments<T>*);                                       \
  template void exceedances(Queue, const G*, const T*, Extent, Key<T>, Exceedances<T>*);                       \
  template void sample(Queue, const G*, const T*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*); \
  template void roll_back(Queue, const G*, T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, Key<T>, T*);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
WEIR_INSTANTIATE_GRADIENT(float, float)
WEIR_INSTANTIATE_GRADIENT(double, double)
WEIR_INSTANTIATE_GRADIENT(float16, float)
WEIR_INSTANTIATE_GRADIENT(bfloat16, float)
#undef WEIR_INSTANTIATE_GRADIENT
template void fill_zero(Queue, float16*, std::int64_t);
template void fill_zero(Queue, bfloat16*, std::int64_t);
template void fill_zero(Queue, std::uint64_t*, std::int64_t);
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
