// Picks random places: one in each of k strata.
#include "compress/cuda_kernels.hpp"
#include "kernels/narrow.hpp"
#include "launch.cuh"

namespace weir::compress::cuda {
namespace {

using namespace weir::kernels::cuda;

/// A thread handles the strata that share a block of random numbers.
template <class G, class T>
__global__ void __launch_bounds__(threads_per_block)
    pick_kernel(const G* x, Strata strata, Draw draw, bool scales_up, std::uint32_t* indices, T* values) {
  const std::int64_t first = thread_number() * strata_per_block;
  if (first >= strata.k) return;
  const auto block = philox(philox_counter(draw, static_cast<std::uint64_t>(first / strata_per_block)), draw.seed);
  for (std::int64_t i = first; i < strata.k && i < first + strata_per_block; ++i) {
    const auto place = static_cast<std::uint32_t>(stratum_place(strata, i, block[static_cast<std::size_t>(i - first)]));
    const T value = widen(x[place]);
    indices[i] = place;
    values[i] = scales_up ? value * static_cast<T>(strata.size(i)) : value;
  }
}

}  // namespace

template <class G, class T>
void pick(Queue queue, const G* x, Strata strata, Draw draw, bool scales_up, std::uint32_t* indices, T* values) {
  launch(queue, pick_kernel<G, T>, tiles_of(strata.k, threads_per_block * strata_per_block), x, strata, draw, scales_up, indices,
         values);
}

template void pick(Queue, const float*, Strata, Draw, bool, std::uint32_t*, float*);
template void pick(Queue, const double*, Strata, Draw, bool, std::uint32_t*, double*);
template void pick(Queue, const float16*, Strata, Draw, bool, std::uint32_t*, float*);
template void pick(Queue, const bfloat16*, Strata, Draw, bool, std::uint32_t*, float*);

}  // namespace weir::compress::cuda
