// error_bounded on fields as simulation codes have them: a reaction from its first step to its patterns, waves on odd grids, fields
// that are constant.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>

#include "compress/codec_cases.hpp"
#include "compress/references.hpp"
#include "support/catch.hpp"
#include "support/gray_scott.hpp"

namespace {

using namespace weir;
using namespace weir::test;

/// Returns the largest error of what comes back, and the bytes that travel.
std::pair<double, std::int64_t> worst_and_bytes(const std::string& parameters, const std::vector<float>& x) {
  const auto codec = CodecCase{"error_bounded", parameters}.make();
  const std::vector<std::byte> message = encoded(*codec, {}, 0, x);
  const std::vector<float> y = decoded(*codec, message, std::ssize(x));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  return {worst, std::ssize(message)};
}

/// Returns waves on a grid, each of some periods along one edge. Their crests do not lie on cells.
std::vector<float> waves(std::int64_t width, std::int64_t height, std::int64_t depth, double periods) {
  const auto wave = [&](std::int64_t at, std::int64_t edge, double phase) {
    return std::cos(2 * std::numbers::pi * (periods * static_cast<double>(at) / static_cast<double>(edge) + phase));
  };
  std::vector<float> x;
  for (std::int64_t i = 0; i < width * height * depth; ++i)
    x.push_back(static_cast<float>(wave(i % width, width, 0.1) * wave(i / width % height, height, 0.2) +
                                   0.5 * wave(i / width / height, depth, 0.3)));
  return x;
}

TEST_CASE("every value of a reaction is within the bound, from its first step to its patterns") {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 65}, {64, 1}, {33, 7}, {129, 100}}) {
    for (const int steps : {0, 1, 20, 500}) {
      const Reaction fields = react(width, height, steps);
      for (const std::vector<float>* field : {&fields.u, &fields.v}) {
        for (const double relative : {0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9}) {
          const double bound = reference::bound_of(*field, 0, relative);
          for (const std::int64_t target : instruction_sets()) {
            INFO(width << " x " << height << ", " << steps << " steps, relative " << relative << ", " << hwy::TargetName(target));
            const OnTarget on(target);
            CHECK(worst_and_bytes(fmt::format("relative={}", relative), *field).first <= bound);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "a reaction takes a quarter of its bytes at a thousandth of its range, and a third once it has steep stripes everywhere") {
  for (const auto& [steps, part] : {std::pair{1, 4}, {20, 4}, {100, 4}, {500, 4}, {3000, 3}}) {
    const Reaction fields = react(257, 255, steps);
    for (const std::vector<float>* field : {&fields.u, &fields.v}) {
      const std::int64_t bytes = worst_and_bytes("relative=0.001", *field).second;
      INFO(steps << " steps: " << bytes << " bytes");
      CHECK(part * bytes <= 4 * std::ssize(*field));
    }
  }
}

TEST_CASE("with rows, a reaction takes a quarter of its bytes in all its steps") {
  for (const int steps : {1, 20, 100, 500, 3000}) {
    const Reaction fields = react(257, 255, steps);
    for (const std::vector<float>* field : {&fields.u, &fields.v}) {
      const auto [worst, bytes] = worst_and_bytes("relative=0.001,row=257", *field);
      INFO(steps << " steps: " << bytes << " bytes");
      CHECK(worst <= reference::bound_of(*field, 0, 0.001));
      CHECK(bytes <= std::ssize(*field));
    }
  }
}

TEST_CASE("waves on odd grids take a quarter of their bytes at a thousandth of their range") {
  for (const auto& [width, height, depth] : {std::tuple{1023, 257, 1}, {255, 511, 1}, {101, 61, 67}, {127, 65, 33}}) {
    for (const double periods : {0.5, 1.0, 2.0}) {
      const std::vector<float> field = waves(width, height, depth, periods);
      const auto [worst, bytes] = worst_and_bytes("relative=0.001", field);
      INFO(width << " x " << height << " x " << depth << ", " << periods << " periods: " << bytes << " bytes");
      CHECK(worst <= reference::bound_of(field, 0, 0.001));
      CHECK(bytes <= std::ssize(field));
    }
  }
}

TEST_CASE("a field that is constant has no range, and comes back as it is") {
  for (const float value : {0.1F, -3e30F, 1e-40F, 1.0F}) {
    for (const std::int64_t count : {1, 63, 65, 1000}) {
      const std::vector<float> x(static_cast<std::size_t>(count), value);
      CHECK(worst_and_bytes("relative=0.001", x).first == 0);
    }
  }
}

}  // namespace
