// test_plan_threads.cpp: plans of ranks with several threads have the bits of one thread, for any number on each rank. There is one
// warning if there are fewer cores than threads.
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_bits.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

template <class T>
struct Outcome {
  std::vector<T> result, residual;
};

/// Returns each rank's result after three runs. Rank r has threads[r % size] threads.
template <class T>
std::vector<Outcome<T>> outcomes(int ranks, AllreduceConfig config, const std::vector<int>& threads,
                                 const std::string& machine = "") {
  std::vector<Outcome<T>> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) {
              const auto rank = static_cast<std::size_t>(comm.rank());
              AllreduceConfig mine = config;
              mine.threads = threads[rank % threads.size()];
              AllreducePlan plan(comm, mine);
              for (int t = 0; t < 3; ++t) {
                std::vector<T> gradient = make_input<T>(Input::heavy_tailed, config.count, comm.rank(), ranks, t);
                plan.run(std::span<T>(gradient));
                all[rank].result = gradient;
              }
              const std::span<const T> residual = plan.template residual<T>();
              all[rank].residual.assign(residual.begin(), residual.end());
            },
            {.machine = machine});
  return all;
}

}  // namespace

TEMPLATE_TEST_CASE("plans have the same bits on any number of threads", "[threads]", float, double) {
  using T = TestType;
  const DataType type = std::is_same_v<T, float> ? DataType::float32 : DataType::float64;
  const auto check = [&](int ranks, const AllreduceConfig& config, const std::string& machine = "") {
    std::vector<Outcome<T>> expected;
    for (const std::vector<int>& threads : {std::vector<int>{2}, {3}, {7}, {1, 2, 3}}) {
      if (left_out()) continue;
      if (expected.empty()) expected = outcomes<T>(ranks, config, {1}, machine);
      INFO(config.algorithm << " ranks " << ranks << " count " << config.count << " threads " << threads[0]);
      const auto found = outcomes<T>(ranks, config, threads, machine);
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        REQUIRE(same_bits(std::span<const T>(found[rank].result), std::span<const T>(expected[rank].result)));
        REQUIRE(same_bits(std::span<const T>(found[rank].residual), std::span<const T>(expected[rank].residual)));
      }
    }
  };
  for (const int ranks : {1, 3}) {
    for (const std::string algorithm : {"oktopk", "topk_allgather", "topk_dsa", "gtopk", "dense_ring", "dense_rabenseifner"})
      check(ranks, {.count = 1100003, .type = type, .density = 0.1, .algorithm = algorithm});
    for (const std::string algorithm : {"oktopk", "topk_allgather", "gtopk"})  // messages that several threads share
      check(ranks, {.count = 1100003, .type = type, .density = 0.4, .algorithm = algorithm});
    for (const std::int64_t count : {0, 1, 2}) check(ranks, {.count = count, .type = type, .density = 1, .algorithm = "oktopk"});
  }
  for (const std::string algorithm : {"hitopk", "dense_torus2d"})
    check(4, {.count = 1100003, .type = type, .density = 0.1, .algorithm = algorithm}, "node:2 rank:2");
}

TEST_CASE("ranks of a node with different numbers of threads", "[threads]") {
  for (const std::string algorithm : {"oktopk", "dense_torus2d", "dense_reproducible"}) {
    const AllreduceConfig config{.count = 1100003, .algorithm = algorithm};
    const auto alone = outcomes<float>(3, config, {1}, ""), mixed = outcomes<float>(3, config, {1, 2, 3}, "");
    INFO(algorithm);
    for (std::size_t rank = 0; rank < alone.size(); ++rank) {
      const std::span<const float> a(alone[rank].result), b(mixed[rank].result);
      REQUIRE(same_bits(a, b));
    }
  }
}

TEST_CASE("threads of a rank that it has no cores for are warned of once", "[threads]") {
  std::vector<std::string> warnings;
  set_log_function([&](LogLevel, std::string_view text) {
    if (text.find("threads are asked for") != std::string_view::npos) warnings.emplace_back(text);
  });
  InprocJob job(1, 0, {}, {});
  Location here;
  for (const int core : {4, 5}) here.cores.insert(core);
  const Communicator comm(detail::make_communicator(job.transport(0), here, Settings{}));
  const AllreducePlan two(comm, {.count = 10, .threads = 2});
  REQUIRE(warnings.empty());
  const AllreducePlan three(comm, {.count = 10, .threads = 3}), seven(comm, {.count = 10, .threads = 7});
  set_log_function({});
  REQUIRE(warnings == std::vector<std::string>{"rank 0: 3 threads are asked for, and it may use 2 cores: they take turns"});
}

}  // namespace weir::test
