// fused_inputs.hpp: makes models and their gradients for tests of tensor fusion.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>
#include <weir/fusion.hpp>

#include "support/inputs.hpp"

namespace weir::test {

inline constexpr std::array all_schemes = {FusionScheme::none,
                                           FusionScheme::behind,
                                           FusionScheme::ahead,
                                           FusionScheme::ahead_inter,
                                           FusionScheme::ahead_inter_intra,
                                           FusionScheme::omgs,
                                           FusionScheme::cupcake,
                                           FusionScheme::ahead_fitted,
                                           FusionScheme::ahead_tapered};

/// Returns tensors of odd sizes: empty ones, single elements, large ones beside small ones.
inline std::vector<FusedTensor> odd_tensors() {
  return {{.name = "stem", .count = 300},
          {.name = "empty", .count = 0},
          {.name = "scalar", .count = 1},
          {.name = "bias", .count = 17, .dense = true},
          {.name = "wide", .count = 4001},
          {.name = "unsent", .count = 50, .k = 0},
          {.name = "whole", .count = 33, .k = 33},
          {.name = "dense_scalar", .count = 1, .dense = true},
          {.name = "denser", .count = 700, .density = 0.2},
          {.name = "head", .count = 129}};
}

/// Returns the gradients of one iteration, by tensor. Magnitudes differ by orders between tensors.
template <class T>
std::vector<std::vector<T>> gradients_of(const std::vector<FusedTensor>& tensors, int rank, int ranks, int iteration,
                                         Input input = Input::heavy_tailed) {
  std::vector<std::vector<T>> gradients;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    gradients.push_back(make_input<T>(input, tensors[i].count, rank, ranks, iteration * 100 + static_cast<int>(i)));
    const T scale = static_cast<T>(std::ldexp(1.0, static_cast<int>(i * 7 % 11) - 5));
    for (T& value : gradients.back()) value *= scale;
  }
  return gradients;
}

/// Returns the order of the tensors: backwards, or shuffled by `seed`.
inline std::vector<int> order_of(std::size_t tensors, unsigned seed) {
  std::vector<int> order(tensors);
  std::iota(order.rbegin(), order.rend(), 0);
  if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

inline std::string name_of(FusionScheme scheme) {
  constexpr const char* names[] = {"none", "behind",  "ahead",        "ahead_inter",  "ahead_inter_intra",
                                   "omgs", "cupcake", "ahead_fitted", "ahead_tapered"};
  return names[static_cast<int>(scheme)];
}

}  // namespace weir::test
