// gray_scott.hpp: fields as a simulation code has them: two substances that react and diffuse on a periodic plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/dice.hpp"

namespace weir::test {

struct Reaction {
  std::vector<float> u, v;  ///< row by row
};

/// Runs the equations of Gray and Scott. The fields are flat with a few squares at first, and later stripes. Members of an ensemble
/// begin with other squares.
inline Reaction react(std::int64_t width, std::int64_t height, int steps, int member = 0) {
  const std::int64_t cells = width * height;
  Reaction now{std::vector<float>(static_cast<std::size_t>(cells), 1), std::vector<float>(static_cast<std::size_t>(cells))};
  if (cells == 0) return now;
  Dice dice(static_cast<std::uint64_t>(member) + 11);
  for (std::int64_t square = 0; square < 1 + cells / 2048; ++square) {
    const std::int64_t left = dice.between(0, width - 1), top = dice.between(0, height - 1);
    for (std::int64_t i = 0; i < 81; ++i) {
      const auto cell = static_cast<std::size_t>((top + i / 9) % height * width + (left + i % 9) % width);
      now.u[cell] = 0.5F;
      now.v[cell] = 0.25F + 0.001F * static_cast<float>(dice.small(0, 20));
    }
  }
  Reaction next = now;
  for (int step = 0; step < steps; ++step) {
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = y * width, above = (y + height - 1) % height * width, below = (y + 1) % height * width;
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t left = x > 0 ? x - 1 : width - 1, right = x + 1 < width ? x + 1 : 0;
        const auto around = [&](const std::vector<float>& field) {
          const float* const at = field.data();
          return at[row + left] + at[row + right] + at[above + x] + at[below + x] - 4 * at[row + x];
        };
        const auto cell = static_cast<std::size_t>(row + x);
        const float u = now.u[cell], v = now.v[cell], reacted = u * v * v;
        next.u[cell] = u + 0.16F * around(now.u) - reacted + 0.037F * (1 - u);
        next.v[cell] = v + 0.08F * around(now.v) + reacted - 0.097F * v;
      }
    }
    std::swap(now, next);
  }
  return now;
}

}  // namespace weir::test
