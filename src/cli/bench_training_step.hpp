// bench_training_step.hpp: computes like a training step, for benchmarks of work that runs beside it.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::cli {

/// Dense layers without biases; weights are layers x width x width floats. A step is a forward and a backward pass of one batch: 6
/// operations for each weight and sample.
class DenseLayers {
 public:
  DenseLayers(std::int64_t weights, std::int64_t batch);
  /// Computes the gradient of all weights into `gradient`, which has weights() floats.
  void step(float* gradient);
  [[nodiscard]] std::int64_t weights() const { return layers_ * width * width; }
  [[nodiscard]] std::int64_t layers() const { return layers_; }
  [[nodiscard]] double operations() const { return 6.0 * static_cast<double>(weights()) * static_cast<double>(batch_); }
  [[nodiscard]] std::vector<float>& values() { return weights_; }
  static constexpr std::int64_t width = 512;

 private:
  std::int64_t layers_, batch_;
  std::vector<float> weights_, activations_, above_, below_;
};

}  // namespace weir::cli
