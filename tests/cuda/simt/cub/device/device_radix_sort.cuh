// device_radix_sort.cuh: CUB's sort of pairs, for the emulated GPUs.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"

namespace cub {

struct DeviceRadixSort {
  template <class K, class V, class N>
  static cudaError_t SortPairs(void* memory, std::size_t& bytes, const K* keys, K* sorted, const V* values, V* sorted_values,
                               N count, int begin_bit = 0, int end_bit = 8 * sizeof(K), cudaStream_t stream = nullptr) {
    if (memory == nullptr) {
      bytes = 1000;
      return cudaSuccess;
    }
    simt::put(stream, [=] {
      std::vector<std::size_t> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto digits = [&](std::size_t i) { return (keys[i] >> begin_bit) & ((std::uint64_t{1} << (end_bit - begin_bit)) - 1); };
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return digits(a) < digits(b); });
      for (std::size_t i = 0; i < order.size(); ++i) {
        sorted[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
    return cudaSuccess;
  }
};

}  // namespace cub
