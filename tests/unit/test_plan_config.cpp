// Configurations of plans: refused ones, and the density schedule.
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "plan/plan_config.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t bound = std::int64_t{1} << 48;

void refuses(const AllreduceConfig& config, const std::string& text) {
  REQUIRE_THROWS_WITH(check_config(config), ContainsSubstring(text));
}

/// Returns k of every iteration until the warm-up is over.
std::vector<std::int64_t> ks(std::int64_t count, std::int64_t k, std::int64_t warmup) {
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t <= warmup; ++t) all.push_back(scheduled_k({.count = count, .k = k, .warmup_iterations = warmup}, t));
  return all;
}

}  // namespace

TEST_CASE("values that would overflow later are refused") {
  for (const int window : {0, -1, 65537, std::numeric_limits<int>::max()})
    refuses({.count = 1, .algorithm_parameters = fmt::format("window={}", window)},
            fmt::format("algorithm_parameters: window of oktopk is '{}': it must be a whole number from 1 to 65536", window));
  for (const std::int64_t wrong : {bound + 1, most, std::int64_t{-1}}) {
    refuses(
        {.count = 1, .threshold = "reuse", .threshold_parameters = fmt::format("period={}", wrong)},
        fmt::format("threshold_parameters: period of reuse is '{}': it must be a whole number from 1 to 281474976710656", wrong));
    refuses({.count = 1, .algorithm_parameters = fmt::format("boundary_period={}", wrong)},
            fmt::format("boundary_period of oktopk is '{}': it must be a whole number from 1 to 281474976710656", wrong));
    refuses({.count = 1, .dense_iterations = wrong}, fmt::format("dense_iterations is {}: it must be between 0 and 2^48", wrong));
    refuses({.count = 1, .warmup_iterations = wrong}, fmt::format("warmup_iterations is {}: it must be between 0 and 2^48", wrong));
  }
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1000001}, most})
    refuses({.count = 1, .trial_iterations = wrong},
            fmt::format("trial_iterations is {}: it must be between 0 and 1000000, for example 8", wrong));
  refuses({.count = 1, .algorithm_parameters = "balance_trigger=nan"},
          "balance_trigger of oktopk is 'nan': it must be a number from 1 to inf");
  REQUIRE_NOTHROW(check_config({.count = 1,
                                .algorithm_parameters = "window=65536,boundary_period=281474976710656,balance_trigger=inf",
                                .trial_iterations = 1000000,
                                .dense_iterations = bound,
                                .warmup_iterations = bound}));
}

TEST_CASE("every algorithm has a largest count") {
  const auto check = [](std::string_view name, bool sparse) {
    const std::int64_t largest = sparse ? std::numeric_limits<std::uint32_t>::max() : bound;
    REQUIRE_NOTHROW(check_config({.count = largest, .algorithm = std::string(name)}));
    for (const std::int64_t count : {largest + 1, most})
      refuses({.count = count, .algorithm = std::string(name)},
              fmt::format("count is {}: {}; split the tensor", count,
                          sparse ? "sparse algorithms take up to 2^32 - 1 elements" : "it must be at most 2^48"));
  };
  check("auto", false);
  check("auto_sparse", true);
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.host_memory) check(algorithm.name, algorithm.sparse);
  }
}

TEST_CASE("densities of a schedule, by hand") {
  using Ks = std::vector<std::int64_t>;
  REQUIRE(ks(1024, 16, 2) == Ks{256, 64, 16});
  REQUIRE(ks(1024, 16, 4) == Ks{256, 128, 64, 32, 16});
  REQUIRE(ks(10000, 100, 2) == Ks{2500, 500, 100});             // 2500 * 0.04^(1/2)
  REQUIRE(ks(10000, 100, 3) == Ks{2500, 855, 292, 100});        // 0.04^(1/3) = 0.34200
  REQUIRE(ks(10000, 100, 4) == Ks{2500, 1118, 500, 224, 100});  // 0.04^(1/4) = 0.44721
  REQUIRE(ks(1000, 250, 2) == Ks{250, 250, 250});
  REQUIRE(ks(1000, 0, 2) == Ks{0, 0, 0});
  REQUIRE(ks(0, 0, 2) == Ks{0, 0, 0});
  REQUIRE(ks(3, 1, 0) == Ks{1});
  // k^4 = (n / 4)^3 * 8388594, so k = 67108750.49999999; std::pow has made it 67108751.
  REQUIRE(ks(536870000, 8388594, 4)[1] == 67108750);
}

TEST_CASE("densities of a schedule fall from a quarter to the target") {
  std::uint64_t seed = 1;
  const auto below = [&seed](std::int64_t end) {
    return static_cast<std::int64_t>(splitmix64(seed++) % static_cast<std::uint64_t>(end));
  };
  for (int turn = 0; turn < 2000; ++turn) {
    const std::int64_t count = 8 + below(std::int64_t{1} << (4 + below(28))), target = 1 + below(count / 4);
    const std::int64_t warmup = 1 + below(std::int64_t{1} << below(49)), dense = below(5);
    const AllreduceConfig config{.count = count, .k = target, .dense_iterations = dense, .warmup_iterations = warmup};
    CAPTURE(count, target, warmup);
    if (dense > 0) REQUIRE(scheduled_k(config, dense - 1) == -1);
    REQUIRE(scheduled_k(config, dense) == std::llround(0.25 * static_cast<double>(count)));
    REQUIRE(scheduled_k(config, dense) == largest_k(config));
    REQUIRE(scheduled_k(config, dense + warmup) == target);
    std::int64_t last = largest_k(config);
    for (std::int64_t step = 0; step < warmup; step += 1 + below(1 + warmup / 4)) {
      const std::int64_t k = scheduled_k(config, dense + step);
      REQUIRE((k <= last && k >= target));
      last = k;
    }
    // Half-way, k is the square root of target * count / 4, to the nearest.
    const AllreduceConfig even{.count = count, .k = target, .warmup_iterations = 2 * (1 + below(1000))};
    const std::int64_t half = 2 * scheduled_k(even, even.warmup_iterations / 2);
    REQUIRE(((half - 1) * (half - 1) <= target * count && target * count <= (half + 1) * (half + 1)));
  }
}

}  // namespace weir::test
