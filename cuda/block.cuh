// block.cuh: what the threads of a block do together (scans and sums), and the blocks of a launch (prefixes over tiles).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace weir::kernels::cuda {

inline constexpr unsigned whole_warp = 0xffffffffu;
inline constexpr int threads_per_block = 256;
/// The number of blocks that a multiprocessor has threads for, six at most.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
inline constexpr int most_resident = 4;
#else
inline constexpr int most_resident = 6;
#endif

__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
__device__ __forceinline__ unsigned warp() { return threadIdx.x / 32; }

/// Returns the sum of `value` over all threads before this one; `total`: over all. Every thread of the block takes part.
__device__ inline std::uint64_t scan_block(std::uint64_t value, std::uint64_t& total) {
  constexpr int warps = threads_per_block / 32;
  __shared__ std::uint64_t sums[warps];
  std::uint64_t inclusive = value;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const std::uint64_t other = __shfl_up_sync(whole_warp, inclusive, distance);
    if (lane() >= distance) inclusive += other;
  }
  if (lane() == 31) sums[warp()] = inclusive;
  __syncthreads();
  std::uint64_t before = 0;
  total = 0;
  for (unsigned w = 0; w < warps; ++w) {
    if (w < warp()) before += sums[w];
    total += sums[w];
  }
  __syncthreads();  // before the next scan writes `sums`
  return before + inclusive - value;
}

/// Combines all threads' values in a tree that depends only on the number of threads. Thread 0 has the result.
template <class V, class Combine>
__device__ V reduce_block(V value, Combine combine) {
  __shared__ V parts[threads_per_block];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  const V result = parts[0];
  __syncthreads();  // before the next call writes `parts`
  return result;
}

/// Returns true, for all threads, in the block that arrives last of all blocks; it sees what the others wrote before. `arrivals` is
/// zero before the launch.
__device__ inline bool is_last_block(unsigned* arrivals) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // for what the whole block wrote before the barrier
    last = atomicAdd(arrivals, 1u) + 1 == gridDim.x;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/// Counts of the tiles before this one, without waiting for all of them: decoupled look-back (Merrill and Garland, NVR-2016-002). A
/// state is one word, so that a reader sees it whole. Its two uppermost bits say whether it is empty, has the count of its tile, or
/// has the count of all tiles up to it. Blocks are started in the order of blockIdx.x, one tile each, so no block waits for one
/// that has not begun.
struct TileStates {
  static constexpr std::uint64_t of_tile = 1ull << 62, of_all = 2ull << 62, count_mask = of_tile - 1;

  volatile unsigned long long* states;  // one per tile, zero before the launch

  /// Returns the count of all tiles before this block's, which has `own`. Called by all lanes of one warp. A lane reads one tile at
  /// a time, and again only while it is empty: reads by hundreds of waiting warps take bandwidth that the tiles themselves need.
  __device__ std::uint64_t before(std::uint64_t own) const {
    constexpr unsigned retry_nanoseconds = 200;
    const auto tile = static_cast<std::int64_t>(blockIdx.x);
    if (lane() == 0) states[tile] = tile == 0 ? (own | of_all) : (own | of_tile);
    std::uint64_t sum = 0;
    bool complete = false;
    for (std::int64_t nearest = tile - 1; nearest >= 0 && !complete; nearest -= 32) {
      const std::int64_t mine = nearest - static_cast<std::int64_t>(lane());
      std::uint64_t seen = of_all;  // before the first tile
      while (mine >= 0 && ((seen = states[mine]) & ~count_mask) == 0) __nanosleep(retry_nanoseconds);
      const unsigned ends = __ballot_sync(whole_warp, (seen & of_all) != 0);
      complete = ends != 0;
      const bool wanted = !complete || lane() < static_cast<unsigned>(__ffs(static_cast<int>(ends)));
      std::uint64_t counted = wanted ? seen & count_mask : 0;
      for (int distance = 16; distance > 0; distance /= 2) counted += __shfl_xor_sync(whole_warp, counted, distance);
      sum += counted;
    }
    if (lane() == 0 && tile > 0) states[tile] = (sum + own) | of_all;
    return sum;
  }

  /// Does the same, called by all threads of the block.
  __device__ std::uint64_t before_in_block(std::uint64_t own) const { return before_in_block({*this}, {own}).of[0]; }

  /// Does the same for several counts at once, one warp for each.
  template <int kinds>
  struct Counts {
    std::uint64_t of[kinds];
  };
  template <int kinds>
  static __device__ Counts<kinds> before_in_block(const TileStates (&states)[kinds], const std::uint64_t (&own)[kinds]) {
    __shared__ std::uint64_t results[kinds];
#pragma unroll
    for (int kind = 0; kind < kinds; ++kind) {
      if (warp() != static_cast<unsigned>(kind)) continue;
      const std::uint64_t sum = states[kind].before(own[kind]);
      if (lane() == 0) results[kind] = sum;
    }
    __syncthreads();
    Counts<kinds> counts;
#pragma unroll
    for (int kind = 0; kind < kinds; ++kind) counts.of[kind] = results[kind];
    __syncthreads();  // before the next call writes `results`
    return counts;
  }
};

}  // namespace weir::kernels::cuda
