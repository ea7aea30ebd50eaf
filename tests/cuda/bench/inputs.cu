#include <cub/device/device_radix_sort.cuh>

#include "base/splitmix.hpp"
#include "bench/inputs.hpp"
#include "cuda/launch.cuh"

namespace weir::bench {
namespace {

using namespace weir::kernels::cuda;

Queue queue_of(void* stream) {
  Queue queue;
  queue.stream = stream;
  check(cudaGetDevice(&queue.device), "asking for the current GPU");
  return queue;
}

__global__ void __launch_bounds__(threads_per_block) random_kernel(float* x, std::int64_t count, int ands, std::uint64_t seed) {
  const std::int64_t i = thread_number();
  if (i >= count) return;
  std::uint64_t bits = ~std::uint64_t{0};
  for (int a = 0; a < ands; ++a) bits &= splitmix64(seed + static_cast<std::uint64_t>(i * 8 + a));
  const float unit = static_cast<float>((bits & 0xffffff) + 1) * 0x1p-24f;
  x[i] = (bits >> 63 != 0 ? 1.0f : -1.0f) * unit * unit * unit;
}

__global__ void __launch_bounds__(threads_per_block)
    prepare_kernel(const float* x, std::int64_t count, std::uint32_t* keys, std::uint32_t* numbers) {
  const std::int64_t i = thread_number();
  if (i >= count) return;
  keys[i] = key_of(x[i]);
  numbers[i] = static_cast<std::uint32_t>(i);
}

std::int64_t aligned(std::int64_t bytes) { return divide_up(bytes, 256) * 256; }

std::size_t cub_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  const std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, in, out, in, out, count), "asking for the memory of a sort");
  return bytes;
}

}  // namespace

void fill_random(void* stream, float* x, std::int64_t count, int ands, std::uint64_t seed) {
  launch(queue_of(stream), random_kernel, tiles_of(count, threads_per_block), x, count, ands, seed);
}

std::int64_t SortedTopK::bytes(std::int64_t count) { return 4 * aligned(count * 4) + static_cast<std::int64_t>(cub_bytes(count)); }

void SortedTopK::run(void* stream, const float* x, std::int64_t count, std::byte* memory) {
  const auto array = [&](int number) { return reinterpret_cast<std::uint32_t*>(memory + number * aligned(count * 4)); };
  launch(queue_of(stream), prepare_kernel, tiles_of(count, threads_per_block), x, count, array(0), array(1));
  std::size_t bytes = cub_bytes(count);
  const std::uint32_t *keys = array(0), *numbers = array(1);
  check(cub::DeviceRadixSort::SortPairs(memory + 4 * aligned(count * 4), bytes, keys, array(2), numbers, array(3), count, 0, 31,
                                        static_cast<cudaStream_t>(stream)),
        "sorting");
}

}  // namespace weir::bench
