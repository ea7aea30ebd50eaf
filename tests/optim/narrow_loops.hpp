// narrow_loops.hpp: LARS and LAMB on 16-bit weights: the papers' loops on float32 weights, rounded after each step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/narrow.hpp"
#include "optim/layer_loops.hpp"

namespace weir::test {

inline constexpr std::array narrow_types = {DataType::float16, DataType::bfloat16};

using Words = std::vector<std::vector<std::uint16_t>>;

inline std::uint16_t narrowed(DataType type, float x) {
  return type == DataType::float16 ? narrow_to<float16, true>(x).bits : narrow_to<bfloat16, true>(x).bits;
}
inline float widened(DataType type, std::uint16_t bits) {
  return type == DataType::float16 ? widen(float16{bits}) : widen(bfloat16{bits});
}
inline Words narrowed(DataType type, const Arrays& arrays) {
  Words words;
  for (const auto& array : arrays) {
    words.emplace_back();
    for (const float x : array) words.back().push_back(narrowed(type, x));
  }
  return words;
}
inline Arrays widened(DataType type, const Words& words) {
  Arrays arrays;
  for (const auto& array : words) {
    arrays.emplace_back();
    for (const std::uint16_t x : array) arrays.back().push_back(widened(type, x));
  }
  return arrays;
}

inline Words gradients_of(DataType type, const std::vector<OptimizedLayer>& layers, int t) {
  return narrowed(type, arrays_of(layers, 1 + t, 0.1F));
}
inline Words first_weights(DataType type, const std::vector<OptimizedLayer>& layers) {
  return narrowed(type, arrays_of(layers, 0, 1));
}

inline void set_some(DataType type, Words& weights) {
  for (auto& array : weights)
    for (std::size_t i = 0; i < array.size(); i += 3) array[i] = narrowed(type, static_cast<float>(i % 5) - 2);
}

/// Before step `change` the caller sets some weights; with -1 it never does.
inline Words right_words(const OptimizerConfig& config, const std::vector<OptimizedLayer>& layers, int change) {
  Words weights = first_weights(config.type, layers);
  Arrays wide = widened(config.type, weights);
  Reference reference(config, layers);
  for (int t = 0; t < steps; ++t) {
    if (t == change) {
      Words set = weights;
      set_some(config.type, set);
      for (std::size_t i = 0; i < set.size(); ++i)
        for (std::size_t j = 0; j < set[i].size(); ++j)
          if (set[i][j] != weights[i][j]) wide[i][j] = widened(config.type, set[i][j]);
      weights = set;
    }
    reference.step(wide, widened(config.type, gradients_of(config.type, layers, t)), learning_rate_of(t),
                   widened(config.type, weights));
    weights = narrowed(config.type, wide);
  }
  return weights;
}

template <class Call>
void for_each_narrow_kind(Call call) {
  for (const OptimizerRule rule : rules)
    for (const DataType type : narrow_types)
      for (const OperatorDivision update : updates)
        call(OptimizerConfig{.rule = rule, .weight_decay = 1e-2, .update = update, .type = type});
}

}  // namespace weir::test
