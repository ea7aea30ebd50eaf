// optimizer.hpp: how a row's gradient changes the row (Optimizer in weir/embedding.hpp). The same code runs on GPUs; sources that
// use RowOptimizer::step are compiled without fused multiplications and additions, so that it has the same bits everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <weir/embedding.hpp>

namespace weir::embedding {

/// Returns how many arrays as large as the values an optimizer keeps: 0, 1 or 2.
[[nodiscard]] int state_arrays(Optimizer optimizer);

/// Elements of rows and the optimizer's state for them; arrays that an optimizer does not keep are null.
struct RowState {
  float* values = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};

/// Groups of rows as kernels take them: keys and members, as in RowGroups. The lists belong to a RowWork.
struct GroupLists {
  const std::uint32_t *keys, *first, *order;
  std::int64_t count;
};

/// One step of the optimizer, for any number of rows.
class RowOptimizer {
 public:
  /// `step` counts from 1. Sums of gradients are divided by `divisor`.
  RowOptimizer(const EmbeddingConfig& config, double learning_rate, double divisor, std::int64_t step);

  [[nodiscard]] Optimizer kind() const { return kind_; }

  /// Changes row rows[i] of `state`, in host memory, by sums[i * width ...]. No row occurs twice.
  void apply(const RowState& state, const std::uint32_t* rows, std::int64_t count, std::int64_t width, const float* sums) const;

  /// Changes element i of `state` by `sum`. `kind` is kind().
  template <Optimizer kind>
  constexpr void step(const RowState& state, std::int64_t i, float sum) const {
    const float g = sum / divisor_;
    if constexpr (kind == Optimizer::sgd) {
      state.values[i] -= rate_ * g;
    } else if constexpr (kind == Optimizer::momentum) {
      state.first[i] = beta1_ * state.first[i] + g;
      state.values[i] -= rate_ * state.first[i];
    } else if constexpr (kind == Optimizer::adagrad) {
      state.first[i] += g * g;
      state.values[i] -= rate_ * g / (std::sqrt(state.first[i]) + epsilon_);
    } else {
      state.first[i] = beta1_ * state.first[i] + (1 - beta1_) * g;
      state.second[i] = beta2_ * state.second[i] + (1 - beta2_) * g * g;
      state.values[i] -=
          rate_ * (state.first[i] / first_correction_) / (std::sqrt(state.second[i]) / second_correction_ + epsilon_);
    }
  }

 private:
  Optimizer kind_;
  float rate_, beta1_, beta2_, epsilon_, divisor_;
  float first_correction_ = 1, second_correction_ = 1;  // of Adam's moments
};

}  // namespace weir::embedding
