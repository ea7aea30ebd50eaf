// network.hpp: a perceptron with one hidden layer. The parameters are one flat array, and so is the gradient, so that one plan
// reduces the whole model.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sample_cache {

/// The network's result on some images.
struct Score {
  double loss = 0;   ///< sum of cross-entropies
  double right = 0;  ///< images classified correctly
};

class Network {
 public:
  Network(int inputs, int hidden, int classes);
  /// The same on every rank.
  [[nodiscard]] std::vector<float> initial_parameters() const;
  /// Sets gradient = scale * gradient of the sum of losses. For each image, `values` holds the inputs, then the class as a
  /// std::int32_t.
  Score learn(std::span<const float> parameters, std::span<const std::byte> values, float scale, std::span<float> gradient);

 private:
  int inputs_, hidden_, classes_;
  std::vector<float> units_, scores_, delta_;  // for each image
};

}  // namespace sample_cache
