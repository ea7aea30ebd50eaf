#include "embedding/optimizer.hpp"

namespace weir::embedding {
namespace {

template <Optimizer kind>
void step_rows(const RowOptimizer& shared, const RowState& state, const std::uint32_t* rows, std::int64_t count, std::int64_t width,
               const float* sums) {
  const RowOptimizer optimizer = shared;  // a copy that no array can overlap: its fields stay in registers
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows[i] * width;
    for (std::int64_t c = 0; c < width; ++c) optimizer.step<kind>(state, row + c, sums[i * width + c]);
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

void RowOptimizer::apply(const RowState& state, const std::uint32_t* rows, std::int64_t count, std::int64_t width,
                         const float* sums) const {
  switch (kind_) {
    case Optimizer::sgd:
      return step_rows<Optimizer::sgd>(*this, state, rows, count, width, sums);
    case Optimizer::momentum:
      return step_rows<Optimizer::momentum>(*this, state, rows, count, width, sums);
    case Optimizer::adagrad:
      return step_rows<Optimizer::adagrad>(*this, state, rows, count, width, sums);
    case Optimizer::adam:
      return step_rows<Optimizer::adam>(*this, state, rows, count, width, sums);
  }
}

}  // namespace weir::embedding
