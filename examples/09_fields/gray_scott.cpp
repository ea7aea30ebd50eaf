#include "gray_scott.hpp"

#include <algorithm>
#include <random>

namespace fields {
namespace {

constexpr float diffusion_of_u = 0.16F, diffusion_of_v = 0.08F;  // in cells^2 a step

/// Returns a number from 0 to 1, the same with every standard library.
float uniform(std::mt19937 &random) { return static_cast<float>(random() >> 8) * 0x1p-24F; }

}  // namespace

GrayScott::GrayScott(int edge, int member) : edge_(edge) {
  std::mt19937 random(static_cast<std::uint32_t>(member) + 1);
  feed_ = 0.037F * (0.98F + 0.04F * uniform(random));
  kill_ = 0.060F * (0.995F + 0.01F * uniform(random));
  const auto cells = static_cast<std::size_t>(edge_ * edge_);
  u_.assign(cells, 1);
  v_.assign(cells, 0);
  next_u_ = next_v_ = u_;

  constexpr std::int64_t side = 12;  // of a square
  const std::int64_t squares = std::max<std::int64_t>(1, edge_ * edge_ / 4096);
  for (std::int64_t square = 0; square < squares; ++square) {
    const std::int64_t left = static_cast<std::int64_t>(random()) % edge_, top = static_cast<std::int64_t>(random()) % edge_;
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x) {
        const auto cell = static_cast<std::size_t>((top + y) % edge_ * edge_ + (left + x) % edge_);
        u_[cell] = 0.5F;
        v_[cell] = 0.25F + 0.01F * uniform(random);
      }
    }
  }
}

void GrayScott::step() {
  for (std::int64_t y = 0; y < edge_; ++y) {
    const std::int64_t row = y * edge_, above = (y > 0 ? y - 1 : edge_ - 1) * edge_, below = (y + 1 < edge_ ? y + 1 : 0) * edge_;
    const float *u = u_.data(), *v = v_.data();
    float *next_u = next_u_.data() + row, *next_v = next_v_.data() + row;
    const auto update = [=, this](std::int64_t x, std::int64_t left, std::int64_t right) {
      const float here_u = u[row + x], here_v = v[row + x];
      const float around_u = u[row + left] + u[row + right] + u[above + x] + u[below + x] - 4 * here_u;
      const float around_v = v[row + left] + v[row + right] + v[above + x] + v[below + x] - 4 * here_v;
      const float reaction = here_u * here_v * here_v;
      next_u[x] = here_u + diffusion_of_u * around_u - reaction + feed_ * (1 - here_u);
      next_v[x] = here_v + diffusion_of_v * around_v + reaction - (feed_ + kill_) * here_v;
    };
    update(0, edge_ - 1, 1);
    for (std::int64_t x = 1; x + 1 < edge_; ++x) update(x, x - 1, x + 1);
    update(edge_ - 1, edge_ - 2, 0);
  }
  u_.swap(next_u_);
  v_.swap(next_v_);
}

}  // namespace fields
