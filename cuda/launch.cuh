// launch.cuh: puts kernels onto a queue.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "block.cuh"
#include "check.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::kernels::cuda {

inline cudaStream_t stream_of(const Queue& queue) { return static_cast<cudaStream_t>(queue.stream); }

/// Calls f with the queue's GPU as the thread's current one, and restores the thread's own.
template <class F>
void on_device(const Queue& queue, const char* what, F f) {
  int current = 0;
  check(cudaGetDevice(&current), "asking for the current GPU");
  if (current != queue.device) check(cudaSetDevice(queue.device), "choosing a GPU");
  const cudaError_t error = f();
  if (current != queue.device) cudaSetDevice(current);
  check(error, what);
}

/// Launches `blocks` blocks of threads_per_block threads.
template <class... Parameters>
void launch(const Queue& queue, void (*kernel)(Parameters...), std::int64_t blocks, std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads_per_block);
  config.stream = stream_of(queue);
  on_device(queue, "launching a kernel", [&] { return cudaLaunchKernelEx(&config, kernel, arguments...); });
}

inline void clear(const Queue& queue, void* memory, std::int64_t bytes) {
  if (bytes == 0) return;
  on_device(queue, "clearing device memory",
            [&] { return cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream_of(queue)); });
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// Returns the blocks of a launch in which each block has one tile of `size` elements; at least one.
constexpr std::int64_t tiles_of(std::int64_t count, std::int64_t size) { return std::max<std::int64_t>(1, divide_up(count, size)); }

/// Returns the blocks of a launch in which blocks go over the array in strides. Depends on `count` alone, so that sums do not
/// depend on the GPU.
constexpr std::int64_t strided_blocks(std::int64_t count, std::int64_t per_block) {
  return std::clamp<std::int64_t>(divide_up(count, per_block), 1, 1024);
}

/// Returns the same if nothing depends on the number of blocks: `resident` per multiprocessor, the number that those of GPUs from
/// 8.0 on hold at once, so that all blocks end at the same time.
inline std::int64_t resident_blocks(const Queue& queue, std::int64_t count, std::int64_t per_block, int resident) {
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, queue.device), "counting multiprocessors");
  return std::clamp<std::int64_t>(divide_up(count, per_block), 1, std::int64_t{multiprocessors} * resident);
}

/// Returns this thread's number among all threads of the launch.
__device__ __forceinline__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
}

/// Calls f(i) for this thread's share of 0, ..., count - 1, in launches with one thread for each i.
template <class F>
__device__ __forceinline__ void for_mine(std::int64_t count, F f) {
  const std::int64_t i = thread_number();
  if (i < count) f(i);
}

/// Returns the number of elements, on the device.
__device__ __forceinline__ std::int64_t exact(const Extent& extent) {
  return extent.exact != nullptr && *extent.exact < extent.most ? *extent.exact : extent.most;
}

/// Returns the first position in [low, high) of the sorted `list` with at least `value`, or `high`.
template <class V>
__device__ inline std::int64_t lower_bound(const std::uint32_t* list, std::int64_t low, std::int64_t high, V value) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (list[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class V>
bool is_aligned(const V* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace weir::kernels::cuda
