// layer_loops.hpp: LARS and LAMB as loops written from the papers, and layers and ranks to test them on.
#pragma once

#include <array>
#include <cmath>
#include <vector>
#include <weir/optim.hpp>

#include "support/inputs.hpp"

namespace weir::test {

using Arrays = std::vector<std::vector<float>>;

inline constexpr std::array rules = {OptimizerRule::lars, OptimizerRule::lamb};
inline constexpr std::array updates = {OperatorDivision::automatic, OperatorDivision::replicated, OperatorDivision::node,
                                       OperatorDivision::all};

struct Job {
  int ranks;
  const char* machine;
};
inline constexpr std::array jobs = {Job{1, ""},          Job{2, ""}, Job{3, "node:3 rank:1"},
                                    Job{5, "nodes:2,3"}, Job{7, ""}, Job{33, "node:11 rank:3"}};

/// Returns layers of one block, of several blocks, with odd ends, and of no elements.
inline std::vector<OptimizedLayer> odd_layers() {
  return {{.name = "stem", .count = 300},    {.name = "bias", .count = 17, .excluded = true},
          {.name = "empty", .count = 0},     {.name = "wide", .count = 3 * 65536 + 5},
          {.name = "block", .count = 65536}, {.name = "scalar", .count = 1},
          {.name = "zero", .count = 40}};
}

inline Arrays arrays_of(const std::vector<OptimizedLayer>& layers, int t, float scale) {
  Arrays arrays;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    arrays.push_back(make_input<float>(Input::heavy_tailed, layers[i].count, 0, 1, t * 100 + static_cast<int>(i)));
    for (float& x : arrays.back()) x *= layers[i].name == "zero" ? 0 : scale;
  }
  return arrays;
}

inline std::vector<float*> pointers_of(Arrays& arrays) {
  std::vector<float*> pointers;
  for (auto& array : arrays) pointers.push_back(array.data());
  return pointers;
}

/// Returns the layer's norm, added in the order that LayerOptimizer promises.
inline double norm_of(const std::vector<float>& x) {
  double all = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += 65536) {
    double partial[16] = {};
    for (std::size_t i = begin; i < std::min(x.size(), begin + 65536); ++i)
      partial[(i - begin) % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (int distance = 8; distance > 0; distance /= 2)
      for (int j = 0; j < distance; ++j) partial[j] += partial[j + distance];
    all += partial[0];
  }
  return std::sqrt(all);
}

/// LARS and LAMB in the papers' loops.
class Reference {
 public:
  Reference(const OptimizerConfig& config, const std::vector<OptimizedLayer>& layers) : c_(config), layers_(layers) {
    for (const OptimizedLayer& layer : layers) {
      first_.emplace_back(static_cast<std::size_t>(layer.count));
      second_.emplace_back(static_cast<std::size_t>(layer.count));
    }
  }

  void step(Arrays& weights, const Arrays& gradients, double learning_rate) { step(weights, gradients, learning_rate, weights); }
  /// `seen` are the weights whose norms lars uses.
  void step(Arrays& weights, const Arrays& gradients, double learning_rate, const Arrays& seen) {
    ++t_;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      c_.rule == OptimizerRule::lars ? lars(i, weights[i], gradients[i], learning_rate, norm_of(seen[i]))
                                     : lamb(i, weights[i], gradients[i], learning_rate);
  }

 private:
  [[nodiscard]] double limited(std::size_t layer, double w, double other, double rate) const {
    if (layers_[layer].excluded || w == 0 || other == 0) rate = 1;
    return c_.largest_rate > 0 ? std::min(rate, c_.largest_rate) : rate;
  }

  void lars(std::size_t layer, std::vector<float>& w, const std::vector<float>& g, double learning_rate, double of_w) {
    const double of_g = norm_of(g);
    const double rate = limited(layer, of_w, of_g, c_.trust_coefficient * of_w / (of_g + c_.weight_decay * of_w));
    const auto step = static_cast<float>(learning_rate * rate), momentum = static_cast<float>(c_.momentum);
    const float decay = layers_[layer].excluded ? 0 : static_cast<float>(c_.weight_decay);
    std::vector<float>& v = first_[layer];
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float decayed = decay * w[i], old = momentum * v[i], sum = g[i] + decayed, now = step * sum;
      v[i] = old + now;
      w[i] -= v[i];
    }
  }

  void lamb(std::size_t layer, std::vector<float>& w, const std::vector<float>& g, double learning_rate) {
    const auto beta1 = static_cast<float>(c_.beta1), beta2 = static_cast<float>(c_.beta2), epsilon = static_cast<float>(c_.epsilon);
    const auto correction1 = static_cast<float>(1 - std::pow(c_.beta1, t_));
    const auto correction2 = static_cast<float>(std::sqrt(1 - std::pow(c_.beta2, t_)));
    const float decay = layers_[layer].excluded ? 0 : static_cast<float>(c_.weight_decay);
    std::vector<float> u(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      float& m = first_[layer][i];
      float& v = second_[layer][i];
      const float kept1 = beta1 * m, new1 = (1 - beta1) * g[i], kept2 = beta2 * v, new2 = (1 - beta2) * g[i] * g[i];
      m = kept1 + new1;
      v = kept2 + new2;
      const float root = std::sqrt(v) / correction2, direction = m / correction1 / (root + epsilon), decayed = decay * w[i];
      u[i] = direction + decayed;
    }
    const double of_w = norm_of(w), of_u = norm_of(u);
    const auto step = static_cast<float>(learning_rate * limited(layer, of_w, of_u, of_w / of_u));
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float moved = step * u[i];
      w[i] -= moved;
    }
  }

  OptimizerConfig c_;
  std::vector<OptimizedLayer> layers_;
  Arrays first_, second_;
  double t_ = 0;
};

inline constexpr int steps = 4;
inline double learning_rate_of(int t) { return 0.5 / (1 + t); }

inline Arrays right_weights(const OptimizerConfig& config, const std::vector<OptimizedLayer>& layers) {
  Arrays weights = arrays_of(layers, 0, 1);
  Reference reference(config, layers);
  for (int t = 0; t < steps; ++t) reference.step(weights, arrays_of(layers, 1 + t, 0.1F), learning_rate_of(t));
  return weights;
}

}  // namespace weir::test
