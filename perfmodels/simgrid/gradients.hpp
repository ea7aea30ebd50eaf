// gradients.hpp: made-up gradients whose ranks overlap as little as those of real training.
#pragma once

#include <cstdint>
#include <span>

namespace weir::simulation {

/// g[i] is normal with the standard deviation exp(spread (z_layer + z_i) / sqrt 2) that all ranks and iterations share: z_i of the
/// coordinate, z_layer of one of 64 equal layers, both standard normal. The smaller `spread`, the less do the ranks' largest
/// entries coincide. The default, 0.25, fills in as Ok-Topk section 5.2 reports: 16 ranks' top 1 % together cover 12 % (VGG16
/// there: 13.2 %), 32 ranks' top 2 % cover 33 % (LSTM: 34.5 %). Distributions are tables of 2048 quantiles.
void fill_gradient(std::span<float> gradient, double spread, int rank, int iteration);

}  // namespace weir::simulation
