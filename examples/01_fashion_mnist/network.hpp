// network.hpp: a multilayer perceptron with ReLU and softmax cross-entropy. The parameters are one flat array, and so is the
// gradient, so that one plan reduces the whole model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset.hpp"

namespace fashion_mnist {

class Network {
 public:
  /// `widths`: the number of inputs, of units in each hidden layer, and of outputs.
  explicit Network(std::vector<int> widths);
  [[nodiscard]] std::int64_t parameter_count() const noexcept { return parameter_count_; }
  /// Names the weights or the biases of a layer, and their place in the flat array.
  struct Array {
    std::string name;
    std::size_t begin;
    std::int64_t count;
    bool is_bias;
  };
  [[nodiscard]] std::vector<Array> arrays() const;

  /// Returns parameters by He initialisation. The same seed gives the same parameters on every rank.
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const;

  /// Sets accumulator = decay * accumulator + scale * gradient of the batch's mean loss. Returns that loss.
  double accumulate_gradient(std::span<const float> parameters, const Batch& batch, float scale, float decay,
                             std::span<float> accumulator);

  /// Returns the number of images in the batch that the network classifies correctly.
  std::int64_t count_correct(std::span<const float> parameters, const Batch& batch);

 private:
  struct Layer {
    int inputs, outputs;
    std::size_t weights, bias;    ///< offsets in the flat array; weights are inputs x outputs, row by row
    std::vector<float> values{};  ///< outputs for each image of the batch
  };
  void forward(std::span<const float> parameters, const Batch& batch);
  void backward(const Layer& layer, const float* inputs, int rows, float decay, float* accumulator) const;

  std::vector<Layer> layers_;
  std::int64_t parameter_count_ = 0;
  std::vector<float> delta_;  ///< loss gradient with respect to the outputs of the current layer
  std::vector<float> next_delta_;
};

}  // namespace fashion_mnist
