// adam_factors.hpp: the numbers of one step of Adam.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace weir::optim {

/// Returns the factors of step `t`, counted from 1.
[[nodiscard]] inline AdamFactors<float> adam_factors(double beta1, double beta2, double epsilon, double decay, std::int64_t t) {
  const auto power = static_cast<double>(t);
  return {static_cast<float>(beta1),
          static_cast<float>(beta2),
          static_cast<float>(1 - std::pow(beta1, power)),
          static_cast<float>(std::sqrt(1 - std::pow(beta2, power))),
          static_cast<float>(epsilon),
          static_cast<float>(decay)};
}

}  // namespace weir::optim
