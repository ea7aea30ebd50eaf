// The dense algorithms: equal to a plain sum, bitwise equal on all ranks, any P, any count.
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

template <class T>
void check_dense(const std::string& algorithm, int ranks, std::int64_t n, const std::string& machine = "") {
  if (left_out()) return;
  INFO(algorithm << " on '" << machine << "' P " << ranks << " n " << n);
  std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<std::vector<T>> now(static_cast<std::size_t>(ranks));
    run_ranks(ranks,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = n, .type = data_type_of<T>, .algorithm = algorithm});
                std::vector<T> x = make_input<T>(Input::heavy_tailed, n, comm.rank(), ranks, 0);
                plan.run(std::span<T>(x));
                now[static_cast<std::size_t>(comm.rank())] = x;
              },
              {.seed = static_cast<std::uint64_t>(repeat + 1),
               .machine = machine,
               .settings = {.timeout_seconds = 120, .shared_memory = repeat == 1}});
    if (repeat == 1) REQUIRE(now == results);  // the same on every run
    results = now;
  }
  for (const auto& result : results) REQUIRE(result == results[0]);
  std::vector<std::vector<T>> inputs;
  for (int r = 0; r < ranks; ++r) inputs.push_back(make_input<T>(Input::heavy_tailed, n, r, ranks, 0));
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    double sum = 0, magnitude = 0;
    for (const auto& input : inputs) {
      const double value = static_cast<double>(input[i]);
      sum += value;
      magnitude += std::abs(value);
    }
    const double tolerance = magnitude * static_cast<double>(std::numeric_limits<T>::epsilon());
    const double error = std::abs(static_cast<double>(results[0][i]) - sum / ranks);
    if (!(error <= tolerance)) FAIL("element " << i << " is " << results[0][i] << ", the mean " << sum / ranks);
  }
}

}  // namespace

TEST_CASE("dense allreduce equals the plain sum", "[dense]") {
  for (const AlgorithmInfo& info : algorithms()) {
    if (info.sparse || info.packed || !info.host_memory) continue;
    const std::string algorithm(info.name);
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
      for (const std::int64_t n : {0, 1, 2, 7, 33, 1000}) check_dense<float>(algorithm, ranks, n);
      check_dense<double>(algorithm, ranks, 513);
    }
    for (const int ranks : {2, 3, 5, 7}) check_dense<float>(algorithm, ranks, 150001);  // several blocks in a node
    check_dense<double>(algorithm, 3, 70001);
    check_dense<float>(algorithm, 8, 300007, "switch:2 node:2 rank:2");
    check_dense<float>(algorithm, 6, 1001, "nodes:3,1,2");
    check_dense<double>(algorithm, 9, 7, "nodes:2,3,4");
    check_dense<float>(algorithm, 5, 140000, "nodes:2,3");
  }
}

}  // namespace weir::test
