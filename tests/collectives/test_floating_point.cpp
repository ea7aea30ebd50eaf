// test_floating_point.cpp: the caller's threads round in another direction or flush subnormal numbers to zero, as with -ffast-math.
// Results have the same bits as without, and the caller's settings are restored.
#include <cfenv>
#include <cmath>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "compress/compressor.hpp"
#include "plan/plan_config.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/other_floating_point.hpp"
#include "support/same_bits.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 3;

/// Changes this thread's settings, as another library might, differently on each rank.
void disturb(int rank) {
  if (rank == 0) flush_subnormals();
  if (rank == 1) std::fesetround(FE_UPWARD);
}

/// Returns a gradient in which half of the entries are subnormal, or so small that sums of them are.
std::vector<float> tiny_input(std::int64_t n, int rank, int t) {
  std::vector<float> g = make_input<float>(Input::heavy_tailed, n, rank, ranks, t);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = std::ldexp(g[i], i % 2 == 0 ? -126 : -140);
  return g;
}

struct Ended {
  std::vector<float> result, residual;
};

std::vector<Ended> run(const AllreduceConfig& config, bool disturbed) {
  std::vector<Ended> ended(ranks);
  std::vector<char> given_back(ranks, 1);
  run_ranks(ranks, [&](Communicator& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    AllreducePlan plan(comm, config);
    for (int t = 0; t < 3; ++t) {
      std::vector<float> g = tiny_input(config.count, comm.rank(), t);
      std::fenv_t before, after;
      std::fegetenv(&before);
      if (disturbed && t > 0) disturb(comm.rank());  // after the first run
      const int direction = std::fegetround();
#if defined(__SSE__)
      const unsigned mode = _mm_getcsr() & 0xffc0;
      plan.run(g);
      given_back[me] = given_back[me] && (_mm_getcsr() & 0xffc0) == mode;
#else
      plan.run(g);
#endif
      given_back[me] = given_back[me] && std::fegetround() == direction;
      std::fegetenv(&after);
      std::fesetenv(&before);
      ended[me].result = g;
    }
    ended[me].residual.assign(plan.residual<float>().begin(), plan.residual<float>().end());
  });
  REQUIRE(given_back == std::vector<char>(ranks, 1));
  return ended;
}

void check(const AllreduceConfig& config) {
  INFO(config.algorithm << " of '" << config.compressor << "', " << config.count << " elements, " << config.threads << " threads");
  const std::vector<Ended> right = run(config, false), found = run(config, true);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    REQUIRE(same_bits<float>(found[rank].result, right[rank].result));
    REQUIRE(same_bits<float>(found[rank].residual, right[rank].residual));
  }
}

}  // namespace

TEST_CASE("results do not depend on a caller's floating-point environment", "[environment]") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    const std::string algorithm(row.name);
    for (const compress::CompressorRow* compressor : compress::compressor_registry()) {
      const AllreduceConfig config{
          .count = 1501, .density = 0.05, .algorithm = algorithm, .compressor = std::string(compressor->name)};
      try {
        check_compression(config);
      } catch (const Error&) {
        continue;  // this algorithm does not carry the compressor
      }
      if (!left_out(4)) check(config);
    }
    if (row.dense()) check({.count = 1501, .algorithm = algorithm});
  }
}

TEST_CASE("nor do they where several threads work for a rank", "[environment]") {
  for (const int threads : {2, 3}) {
    check({.count = 600'001, .density = 0.05, .algorithm = "oktopk", .threads = threads});
    check(
        {.count = 600'001, .density = 0.05, .algorithm = "topk_allgather", .wire_values = WireValues::float16, .threads = threads});
    check({.count = 600'001, .algorithm = "packed_allgather", .compressor = "qsgd", .threads = threads});
  }
}

}  // namespace weir::test
