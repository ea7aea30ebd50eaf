// optimizer.hpp: what a row's gradient does to the row (Optimizer in weir/embedding.hpp).
#pragma once

#include <cstdint>
#include <weir/embedding.hpp>

namespace weir::embedding {

/// Arrays as large as the values that an optimizer keeps: 0, 1 or 2.
[[nodiscard]] int state_arrays(Optimizer optimizer);

/// One step, for any number of rows.
class RowOptimizer {
 public:
  /// `step` counts from 1. Sums of gradients are divided by `divisor`.
  RowOptimizer(const EmbeddingConfig& config, double learning_rate, double divisor, std::int64_t step);

  /// Row rows[i] of `values` and of the state (`width` elements each; pointers of arrays that are not kept are null) is changed by
  /// sums[i * width ...]. No row twice.
  void apply(float* values, float* first_state, float* second_state, const std::uint32_t* rows, std::int64_t count,
             std::int64_t width, const float* sums) const;

 private:
  Optimizer kind_;
  float rate_, beta1_, beta2_, epsilon_, divisor_;
  float first_correction_ = 1, second_correction_ = 1;  // of Adam's moments
};

}  // namespace weir::embedding
