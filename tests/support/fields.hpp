// fields.hpp: values as of simulations, smooth and adversarial, for tests of bounds on errors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/gray_scott.hpp"

namespace weir::test {

enum class Field {
  waves_2d,  ///< on rows of 1,000 values
  waves_3d,  ///< on rows and planes of edge 100
  uniform,   ///< in [-1, 1)
  constants,
  alternating,  ///< signs of nearly one magnitude
  subnormals,
  largest,  ///< up to the largest floats
  mixed,    ///< of all magnitudes
  halves,   ///< of multiples of powers of two: ties
  spikes,   ///< rare values of 1e9 in a smooth field
  reaction  ///< of a simulation, on rows of 100 values
};
inline constexpr Field all_fields[] = {Field::waves_2d,    Field::waves_3d,   Field::uniform, Field::constants,
                                       Field::alternating, Field::subnormals, Field::largest, Field::mixed,
                                       Field::halves,      Field::spikes,     Field::reaction};

/// Returns values that differ between ranks.
inline std::vector<float> field(Field kind, std::int64_t count, int rank = 0) {
  if (kind == Field::reaction) {
    std::vector<float> v = react(100, (count + 99) / 100, 50, rank).v;
    v.resize(static_cast<std::size_t>(count));
    return v;
  }
  Dice dice(static_cast<std::uint64_t>(rank) + 5);
  const auto uniform = [&] { return static_cast<double>(dice.word() >> 11) * 0x1p-52 - 1; };  // in [-1, 1)
  const auto wave = [&](double periods, std::int64_t at, std::int64_t edge) {
    return std::sin(2 * std::numbers::pi * (periods * static_cast<double>(at) / static_cast<double>(edge) + 0.07 * rank));
  };
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) {
    double value = 0;
    switch (kind) {
      case Field::waves_2d:
        value = wave(3, i % 1000, 1000) * wave(2, i / 1000, 1000);
        break;
      case Field::waves_3d:
      case Field::spikes:
        value = wave(1, i % 100, 100) * wave(2, i / 100 % 100, 100) + 0.5 * wave(1, i / 10'000, 100);
        if (kind == Field::spikes && dice.chance(1)) value = std::copysign(1e9, uniform());
        break;
      case Field::uniform:
        value = uniform();
        break;
      case Field::constants:
        value = 0.1 + rank;
        break;
      case Field::alternating:
        value = (i % 2 == 0 ? 1 : -1) * (1 + 1e-3 * uniform());
        break;
      case Field::subnormals:
        value = std::ldexp(uniform(), dice.small(-149, -126));
        break;
      case Field::largest:
        value = uniform() * static_cast<double>(std::numeric_limits<float>::max());
        break;
      case Field::mixed:
        value = std::ldexp(uniform(), dice.small(-149, 120));
        break;
      case Field::reaction:  // above
        break;
      case Field::halves:
        value = std::ldexp(static_cast<double>(dice.between(-4000, 4000)), dice.small(-14, -4));
        break;
    }
    x.push_back(static_cast<float>(value));
  }
  return x;
}

}  // namespace weir::test
