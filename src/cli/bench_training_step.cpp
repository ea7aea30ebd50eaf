#include "cli/bench_training_step.hpp"

#include <algorithm>

namespace weir::cli {
namespace {

constexpr std::int64_t width = DenseLayers::width;

/// Computes to[b][j] += from[b][i] * w[i][j], one row of w at a time for the whole batch.
void forward(const float* from, const float* w, float* to, std::int64_t batch) {
  std::fill_n(to, batch * width, 0.0F);
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const float x = from[b * width + i];
      for (std::int64_t j = 0; j < width; ++j) to[b * width + j] += x * w[i * width + j];
    }
  }
}

/// Computes below[b][i] = sum over j of above[b][j] * w[i][j]. Sums run in several lanes.
void backward(const float* above, const float* w, float* below, std::int64_t batch) {
  constexpr std::int64_t lanes = 16;
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t b = 0; b < batch; ++b) {
      float sums[lanes] = {};
      for (std::int64_t j = 0; j < width; j += lanes) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += above[b * width + j + lane] * w[i * width + j + lane];
      }
      float sum = 0;
      for (const float lane : sums) sum += lane;
      below[b * width + i] = sum;
    }
  }
}

/// Computes gradient[i][j] = sum over the batch of from[b][i] * above[b][j].
void weight_gradient(const float* from, const float* above, float* gradient, std::int64_t batch) {
  for (std::int64_t i = 0; i < width; ++i) {
    float* const row = gradient + i * width;
    std::fill_n(row, width, 0.0F);
    for (std::int64_t b = 0; b < batch; ++b) {
      const float x = from[b * width + i];
      for (std::int64_t j = 0; j < width; ++j) row[j] += x * above[b * width + j];
    }
  }
}

}  // namespace

DenseLayers::DenseLayers(std::int64_t weights, std::int64_t batch)
    : layers_(std::max<std::int64_t>(1, weights / (width * width))),
      batch_(batch),
      weights_(static_cast<std::size_t>(layers_ * width * width)),
      activations_(static_cast<std::size_t>((layers_ + 1) * batch * width)),
      above_(static_cast<std::size_t>(batch * width)),
      below_(above_.size()) {
  std::uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525U + 1013904223U;
    return (static_cast<float>(state >> 8) / 8388608.0F - 1.0F) / 16.0F;
  };
  for (float& weight : weights_) weight = next();
  for (std::int64_t i = 0; i < batch_ * width; ++i) activations_[static_cast<std::size_t>(i)] = next();
}

void DenseLayers::step(float* gradient) {
  const std::int64_t layer = width * width, activation = batch_ * width;
  for (std::int64_t l = 0; l < layers_; ++l)
    forward(activations_.data() + l * activation, weights_.data() + l * layer, activations_.data() + (l + 1) * activation, batch_);
  std::copy_n(activations_.data() + layers_ * activation, activation, above_.data());
  for (std::int64_t l = layers_ - 1; l >= 0; --l) {
    weight_gradient(activations_.data() + l * activation, above_.data(), gradient + l * layer, batch_);
    backward(above_.data(), weights_.data() + l * layer, below_.data(), batch_);
    std::swap(above_, below_);
  }
}

}  // namespace weir::cli
