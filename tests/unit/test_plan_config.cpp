// Configurations of plans: what is refused.
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "plan/plan_config.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t bound = std::int64_t{1} << 48;

void refuses(const AllreduceConfig& config, const std::string& text) {
  REQUIRE_THROWS_WITH(check_config(config), ContainsSubstring(text));
}

}  // namespace

TEST_CASE("values that would overflow later are refused") {
  for (const int window : {0, -1, 65537, std::numeric_limits<int>::max()})
    refuses({.count = 1, .window = window}, fmt::format("window is {}: it must be between 1 and 65536, for example 4", window));
  for (const std::int64_t wrong : {bound + 1, most, std::int64_t{-1}}) {
    refuses({.count = 1, .threshold_period = wrong},
            fmt::format("threshold_period is {}: it must be between 1 and 2^48, for example 32", wrong));
    refuses({.count = 1, .boundary_period = wrong},
            fmt::format("boundary_period is {}: it must be between 1 and 2^48, for example 64", wrong));
    refuses({.count = 1, .dense_iterations = wrong}, fmt::format("dense_iterations is {}: it must be between 0 and 2^48", wrong));
    refuses({.count = 1, .warmup_iterations = wrong}, fmt::format("warmup_iterations is {}: it must be between 0 and 2^48", wrong));
  }
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1000001}, most})
    refuses({.count = 1, .trial_iterations = wrong},
            fmt::format("trial_iterations is {}: it must be between 0 and 1000000, for example 8", wrong));
  refuses({.count = 1, .balance_trigger = std::nan("")}, "balance_trigger is nan: it must be at least 1");
  REQUIRE_NOTHROW(check_config({.count = 1,
                                .trial_iterations = 1000000,
                                .threshold_period = bound,
                                .boundary_period = bound,
                                .balance_trigger = std::numeric_limits<double>::infinity(),
                                .window = 65536,
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

}  // namespace weir::test
