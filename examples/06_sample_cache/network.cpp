#include "network.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

namespace sample_cache {

Network::Network(int inputs, int hidden, int classes) : inputs_(inputs), hidden_(hidden), classes_(classes) {}

std::vector<float> Network::initial_parameters() const {
  const int first = inputs_ * hidden_, second = hidden_ * classes_;
  std::vector<float> parameters(static_cast<std::size_t>(first + second));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const float a = std::sqrt(2 / static_cast<float>(inputs_)), b = std::sqrt(2 / static_cast<float>(hidden_));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = normal(random) * (i < static_cast<std::size_t>(first) ? a : b);
  return parameters;
}

Score Network::learn(std::span<const float> parameters, std::span<const std::byte> values, float scale, std::span<float> gradient) {
  const int stride = inputs_ + 1, images = static_cast<int>(values.size() / sizeof(float)) / stride;
  std::ranges::fill(gradient, 0.0F);
  if (images == 0) return {};
  const auto* pixels = reinterpret_cast<const float*>(values.data());
  const float *first = parameters.data(), *second = first + inputs_ * hidden_;
  units_.resize(static_cast<std::size_t>(images * hidden_));
  delta_.resize(units_.size());
  scores_.resize(static_cast<std::size_t>(images * classes_));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, images, hidden_, inputs_, 1, pixels, stride, first, hidden_, 0,
              units_.data(), hidden_);
  for (float& unit : units_) unit = std::max(unit, 0.0F);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, images, classes_, hidden_, 1, units_.data(), hidden_, second, classes_, 0,
              scores_.data(), classes_);

  Score score;
  for (int i = 0; i < images; ++i) {
    std::int32_t label = 0;
    std::memcpy(&label, pixels + i * stride + inputs_, sizeof label);
    const auto row = std::span(scores_).subspan(static_cast<std::size_t>(i * classes_), static_cast<std::size_t>(classes_));
    const auto largest = std::ranges::max_element(row);
    score.right += largest - row.begin() == label ? 1 : 0;
    float sum = 0;
    for (const float most = *largest; float& value : row) sum += value = std::exp(value - most);
    const auto right = static_cast<std::size_t>(label);
    score.loss -= std::log(std::max(row[right] / sum, 1e-30F));
    for (float& value : row) value *= scale / sum;
    row[right] -= scale;
  }

  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, hidden_, classes_, images, 1, units_.data(), hidden_, scores_.data(),
              classes_, 0, gradient.data() + inputs_ * hidden_, classes_);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, images, hidden_, classes_, 1, scores_.data(), classes_, second, classes_, 0,
              delta_.data(), hidden_);
  for (std::size_t i = 0; i < delta_.size(); ++i) delta_[i] = units_[i] > 0 ? delta_[i] : 0;
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inputs_, hidden_, images, 1, pixels, stride, delta_.data(), hidden_, 0,
              gradient.data(), hidden_);
  return score;
}

}  // namespace sample_cache
