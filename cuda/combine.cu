// What error feedback computes from gradients: linear combinations, clearing of entries that were taken, gradients of 16 bits.
// Compiled without fused multiplications and additions, so that they have the host's bits.
#include "kernels/narrow.hpp"
#include "launch.cuh"

namespace weir::kernels::cuda {
namespace {

template <class G, class T>
__global__ void __launch_bounds__(threads_per_block) waxpby_kernel(T a, const G* x, T b, const T* y, T* out, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) {
    const T ax = a * static_cast<T>(widen(x[i]));
    out[i] = y != nullptr ? ax + b * y[i] : ax;
  }
}

template <class G, class T>
__global__ void __launch_bounds__(threads_per_block) narrow_kernel(const T* x, G* out, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) { out[i] = narrow_to<G>(x[i]); });
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) clear_taken_kernel(T* dense, const std::uint32_t* indices, std::int64_t count,
                                                                        const std::uint32_t* taken, std::int64_t taken_count) {
  for_mine(count, [&](std::int64_t i) {
    const std::uint32_t index = indices[i];
    const std::int64_t t = lower_bound(taken, 0, taken_count, index);
    if (t < taken_count && taken[t] == index) dense[index] = T{0};
  });
}

constexpr int blocks_at_once = 8;  // of a multiprocessor

}  // namespace

template <class G, class T>
void waxpby(Queue queue, T a, const G* x, T b, const T* y, T* out, std::int64_t count) {
  launch(queue, waxpby_kernel<G, T>, resident_blocks(queue, count, threads_per_block, blocks_at_once), a, x, b, y, out, count);
}

template <class G, class T>
void narrow(Queue queue, const T* x, G* out, std::int64_t count) {
  launch(queue, narrow_kernel<G, T>, tiles_of(count, threads_per_block), x, out, count);
}

template <class T>
void clear_taken(Queue queue, T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken,
                 std::int64_t taken_count) {
  launch(queue, clear_taken_kernel<T>, tiles_of(count, threads_per_block), dense, indices, count, taken, taken_count);
}

template void waxpby(Queue, float, const float*, float, const float*, float*, std::int64_t);
template void waxpby(Queue, float, const float16*, float, const float*, float*, std::int64_t);
template void waxpby(Queue, float, const bfloat16*, float, const float*, float*, std::int64_t);
template void waxpby(Queue, double, const double*, double, const double*, double*, std::int64_t);
template void narrow(Queue, const float*, float16*, std::int64_t);
template void narrow(Queue, const float*, bfloat16*, std::int64_t);
template void clear_taken(Queue, float*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);
template void clear_taken(Queue, double*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);

}  // namespace weir::kernels::cuda
