#include "embedding/optimizer.hpp"

#include <cmath>

namespace weir::embedding {
namespace {

template <class Step>
void for_each_row(const std::uint32_t* rows, std::int64_t count, std::int64_t width, const float* sums, Step step) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows[i] * width;
    for (std::int64_t c = 0; c < width; ++c) step(row + c, sums[i * width + c]);
  }
}

}  // namespace

int state_arrays(Optimizer optimizer) { return optimizer == Optimizer::sgd ? 0 : optimizer == Optimizer::adam ? 2 : 1; }

RowOptimizer::RowOptimizer(const EmbeddingConfig& config, double learning_rate, double divisor, std::int64_t step)
    : kind_(config.optimizer),
      rate_(static_cast<float>(learning_rate)),
      beta1_(static_cast<float>(config.beta1)),
      beta2_(static_cast<float>(config.beta2)),
      epsilon_(static_cast<float>(config.epsilon)),
      divisor_(static_cast<float>(divisor)) {
  if (kind_ != Optimizer::adam) return;
  first_correction_ = static_cast<float>(1 - std::pow(config.beta1, static_cast<double>(step)));
  second_correction_ = static_cast<float>(std::sqrt(1 - std::pow(config.beta2, static_cast<double>(step))));
}

void RowOptimizer::apply(float* values, float* first_state, float* second_state, const std::uint32_t* rows, std::int64_t count,
                         std::int64_t width, const float* sums) const {
  const float rate = rate_, beta1 = beta1_, beta2 = beta2_, epsilon = epsilon_, divisor = divisor_;
  switch (kind_) {
    case Optimizer::sgd:
      return for_each_row(rows, count, width, sums, [=](std::int64_t i, float sum) { values[i] -= rate * (sum / divisor); });
    case Optimizer::momentum:
      return for_each_row(rows, count, width, sums, [=](std::int64_t i, float sum) {
        first_state[i] = beta1 * first_state[i] + sum / divisor;
        values[i] -= rate * first_state[i];
      });
    case Optimizer::adagrad:
      return for_each_row(rows, count, width, sums, [=](std::int64_t i, float sum) {
        const float g = sum / divisor;
        first_state[i] += g * g;
        values[i] -= rate * g / (std::sqrt(first_state[i]) + epsilon);
      });
    case Optimizer::adam: {
      const float first_correction = first_correction_, second_correction = second_correction_;
      return for_each_row(rows, count, width, sums, [=](std::int64_t i, float sum) {
        const float g = sum / divisor;
        first_state[i] = beta1 * first_state[i] + (1 - beta1) * g;
        second_state[i] = beta2 * second_state[i] + (1 - beta2) * g * g;
        values[i] -= rate * (first_state[i] / first_correction) / (std::sqrt(second_state[i]) / second_correction + epsilon);
      });
    }
  }
}

}  // namespace weir::embedding
