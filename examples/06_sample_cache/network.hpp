// A perceptron with one hidden layer. All parameters lie in one flat array, and so does the gradient: one plan reduces all of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sample_cache {

/// What the network made of some images.
struct Score {
  double loss = 0;   ///< sum of cross-entropies
  double right = 0;  ///< images put into their class
};

class Network {
 public:
  Network(int inputs, int hidden, int classes);
  /// The same on every rank.
  [[nodiscard]] std::vector<float> initial_parameters() const;
  /// gradient = scale * gradient of the sum of losses. Of each image, `values` has the inputs, then the class as a std::int32_t.
  Score learn(std::span<const float> parameters, std::span<const std::byte> values, float scale, std::span<float> gradient);

 private:
  int inputs_, hidden_, classes_;
  std::vector<float> units_, scores_, delta_;  // by image
};

}  // namespace sample_cache
