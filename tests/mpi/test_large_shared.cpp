// Plans that share more memory within a node than a small machine has: they must run all the same. tests/cluster/test_small_shm.sh
// makes the machine small.
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace weir::test {
namespace {

constexpr const char* sharing[] = {"dense_torus2d", "hitopk", "hi_oktopk"};
constexpr std::int64_t million = 1000000;

AllreduceConfig config_of(const char* algorithm, std::int64_t count) {
  return {.count = count, .density = 0.001, .algorithm = algorithm, .average = false};
}

/// Returns a gradient in which one element of a thousand is large. Every rank has the same, so these are delivered.
std::vector<float> gradient(std::int64_t count) {
  std::vector<float> g(static_cast<std::size_t>(count), 1);
  for (std::size_t i = 0; i < g.size(); i += 1000) g[i] = static_cast<float>(2 + i % 7);
  return g;
}

bool runs_right(AllreducePlan& plan, int ranks) {
  const bool dense = plan.config().algorithm == "dense_torus2d";
  const std::vector<float> before = gradient(plan.config().count);
  std::vector<float> g = before;
  plan.run(g);
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] != (dense || i % 1000 == 0 ? static_cast<float>(ranks) * before[i] : 0)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("plans that share much memory") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const std::int64_t count : {4 * million, 9 * million, 16 * million}) {
    for (const char* algorithm : sharing) {
      INFO(algorithm << " of " << count);
      AllreducePlan plan(comm, config_of(algorithm, count));
      REQUIRE(runs_right(plan, comm.size()));
      REQUIRE((std::string_view(algorithm) != "dense_torus2d" || runs_right(plan, comm.size())));
    }
  }
}

TEST_CASE("plans that share much memory one by one, and more together") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const char* algorithm : sharing) {
    INFO(algorithm);
    std::vector<AllreducePlan> plans;
    for (int i = 0; i < 3; ++i) plans.emplace_back(comm, config_of(algorithm, 36 * million / 8));
    for (AllreducePlan& plan : plans) REQUIRE(runs_right(plan, comm.size()));
    plans.erase(plans.begin() + 1);
    plans.emplace_back(comm, config_of(algorithm, 30 * million / 8));
    REQUIRE(runs_right(plans.back(), comm.size()));
  }
}

}  // namespace weir::test
