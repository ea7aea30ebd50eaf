// device_layers.hpp: weights and gradients of layers in CUDA memory, and the ranks on which to test optimizers there.
#pragma once

#include <array>
#include <memory>
#include <vector>
#include <weir/optim.hpp>

#include "optim/layer_loops.hpp"
#include "support/device_arrays.hpp"

namespace weir::test {

inline constexpr std::array device_jobs = {Job{1, ""}, Job{3, "node:3 rank:1"}, Job{5, "nodes:2,3"}};

/// The arrays of all layers, in CUDA memory.
template <class V>
class GpuArrays {
 public:
  GpuArrays(const std::vector<std::vector<V>>& arrays, void* stream) {
    for (const auto& array : arrays) there_.push_back(std::make_unique<Upload<V>>(array, stream));
  }
  /// `Pointer` is V*, or void* for step_raw.
  template <class Pointer = V*>
  [[nodiscard]] std::vector<Pointer> write() const {
    std::vector<Pointer> pointers;
    for (const auto& array : there_) pointers.push_back(array->data());
    return pointers;
  }
  template <class Pointer = const V*>
  [[nodiscard]] std::vector<Pointer> read() const {
    return write<Pointer>();
  }
  [[nodiscard]] std::vector<std::vector<V>> fetch() const {
    std::vector<std::vector<V>> arrays;
    for (const auto& array : there_) arrays.push_back(array->fetch());
    return arrays;
  }

 private:
  std::vector<std::unique_ptr<Upload<V>>> there_;
};

inline OptimizerConfig in_cuda_memory(OptimizerConfig config) {
  config.memory = MemorySpace::cuda;
  return config;
}

}  // namespace weir::test
