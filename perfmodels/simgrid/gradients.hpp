// gradients.hpp: makes up gradients whose largest entries overlap between ranks as little as in real training.
#pragma once

#include <cstdint>
#include <span>

namespace weir::simulation {

/// Fills `gradient` with normal values. All ranks and iterations share the standard deviation exp(spread (z_layer + z_i) / sqrt 2)
/// of g[i]: z_i of the coordinate and z_layer of one of 64 equal layers are standard normal. With a smaller `spread`, the ranks'
/// largest entries coincide less. The default, 0.25, fills in as Ok-Topk section 5.2 reports: 16 ranks' top 1 % together cover 12 %
/// (VGG16 there: 13.2 %), 32 ranks' top 2 % cover 33 % (LSTM: 34.5 %). Distributions are tables of 2048 quantiles.
void fill_gradient(std::span<float> gradient, double spread, int rank, int iteration);

}  // namespace weir::simulation
