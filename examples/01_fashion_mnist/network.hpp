// A multilayer perceptron with ReLU and softmax cross-entropy. All parameters lie in one flat array, and so does the
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
  /// `widths`: units of the input, of each hidden layer and of the output.
  explicit Network(std::vector<int> widths);
  [[nodiscard]] std::int64_t parameter_count() const noexcept { return parameter_count_; }
  /// The weights or the biases of a layer: where they lie among all parameters.
  struct Array {
    std::string name;
    std::size_t begin;
    std::int64_t count;
    bool is_bias;
  };
  [[nodiscard]] std::vector<Array> arrays() const;

  /// He initialisation; the same seed gives the same parameters on every rank.
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const;

  /// accumulator = decay * accumulator + scale * gradient of the batch's mean loss. Returns that loss.
  double accumulate_gradient(std::span<const float> parameters, const Batch& batch, float scale, float decay,
                             std::span<float> accumulator);

  /// How many images of the batch the network puts into their class.
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
  std::vector<float> delta_;  ///< loss gradient with respect to the outputs of the layer in work
  std::vector<float> next_delta_;
};

}  // namespace fashion_mnist
