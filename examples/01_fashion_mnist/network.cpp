#include "network.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace fashion_mnist {
namespace {

/// Turns scores, a row per image, into `scale` times the gradient of their mean cross-entropy. Returns that mean.
double softmax_cross_entropy(std::span<float> scores, std::span<const std::uint8_t> labels, float scale) {
  const std::size_t classes = scores.size() / labels.size();
  const float per_row = scale / static_cast<float>(labels.size());
  double loss = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto values = scores.subspan(row * classes, classes);
    const float largest = *std::ranges::max_element(values);
    float sum = 0;
    for (float& value : values) sum += value = std::exp(value - largest);
    loss -= std::log(std::max(values[labels[row]] / sum, 1e-30F));
    for (float& value : values) value *= per_row / sum;
    values[labels[row]] -= per_row;
  }
  return loss / static_cast<double>(labels.size());
}

}  // namespace

Network::Network(std::vector<int> widths) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto weights = static_cast<std::size_t>(parameter_count_);
    const std::size_t bias = weights + static_cast<std::size_t>(widths[i]) * static_cast<std::size_t>(widths[i + 1]);
    layers_.push_back({.inputs = widths[i], .outputs = widths[i + 1], .weights = weights, .bias = bias});
    parameter_count_ = static_cast<std::int64_t>(bias) + widths[i + 1];
  }
}

std::vector<Network::Array> Network::arrays() const {
  std::vector<Array> arrays;
  for (const Layer& layer : layers_) {
    const std::string name = "layer" + std::to_string(&layer - layers_.data() + 1);
    arrays.push_back({name + ".weight", layer.weights, static_cast<std::int64_t>(layer.bias - layer.weights), false});
    arrays.push_back({name + ".bias", layer.bias, layer.outputs, true});
  }
  return arrays;
}

std::vector<float> Network::initial_parameters(std::uint64_t seed) const {
  std::vector<float> parameters(static_cast<std::size_t>(parameter_count_), 0.0F);
  std::mt19937_64 random(seed);
  for (const Layer& layer : layers_) {
    std::normal_distribution<float> normal(0.0F, std::sqrt(2.0F / static_cast<float>(layer.inputs)));
    std::generate(&parameters[layer.weights], &parameters[layer.bias], [&] { return normal(random); });
  }
  return parameters;
}

void Network::forward(std::span<const float> parameters, const Batch& batch) {
  const auto rows = batch.labels.size();
  const float* inputs = batch.images.data();
  for (Layer& layer : layers_) {
    const auto outputs = static_cast<std::size_t>(layer.outputs);
    layer.values.resize(rows * outputs);
    for (std::size_t row = 0; row < rows; ++row) std::copy_n(&parameters[layer.bias], outputs, &layer.values[row * outputs]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows), layer.outputs, layer.inputs, 1.0F, inputs,
                layer.inputs, &parameters[layer.weights], layer.outputs, 1.0F, layer.values.data(), layer.outputs);
    if (&layer != &layers_.back()) {
      for (float& value : layer.values) value = std::max(value, 0.0F);
    }
    inputs = layer.values.data();
  }
}

double Network::accumulate_gradient(std::span<const float> parameters, const Batch& batch, float scale, float decay,
                                    std::span<float> accumulator) {
  forward(parameters, batch);
  const double loss = softmax_cross_entropy(layers_.back().values, batch.labels, scale);
  const int rows = static_cast<int>(batch.labels.size());
  delta_ = layers_.back().values;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const std::span<const float> inputs = i == 0 ? std::span<const float>(batch.images) : layers_[i - 1].values;
    backward(layer, inputs.data(), rows, decay, accumulator.data());
    if (i == 0) break;
    next_delta_.resize(inputs.size());
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, layer.inputs, layer.outputs, 1.0F, delta_.data(), layer.outputs,
                &parameters[layer.weights], layer.outputs, 0.0F, next_delta_.data(), layer.inputs);
    for (std::size_t j = 0; j < inputs.size(); ++j) next_delta_[j] = inputs[j] > 0 ? next_delta_[j] : 0.0F;
    std::swap(delta_, next_delta_);
  }
  return loss;
}

void Network::backward(const Layer& layer, const float* inputs, int rows, float decay, float* accumulator) const {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer.inputs, layer.outputs, rows, 1.0F, inputs, layer.inputs, delta_.data(),
              layer.outputs, decay, accumulator + layer.weights, layer.outputs);
  float* bias = accumulator + layer.bias;
  cblas_sscal(layer.outputs, decay, bias, 1);
  for (int row = 0; row < rows; ++row)
    cblas_saxpy(layer.outputs, 1.0F, &delta_[static_cast<std::size_t>(row * layer.outputs)], 1, bias, 1);
}

std::int64_t Network::count_correct(std::span<const float> parameters, const Batch& batch) {
  forward(parameters, batch);
  const std::vector<float>& scores = layers_.back().values;
  const auto classes = static_cast<std::size_t>(layers_.back().outputs);
  std::int64_t correct = 0;
  for (std::size_t row = 0; row < batch.labels.size(); ++row) {
    const float* first = &scores[row * classes];
    correct += std::max_element(first, first + classes) - first == batch.labels[row];
  }
  return correct;
}

}  // namespace fashion_mnist
