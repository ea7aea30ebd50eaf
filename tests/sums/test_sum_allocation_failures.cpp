// Memory runs out on one rank, at every allocation in making a sum and in its first runs. Every rank ends with the same result, and
// the communicator still works.
#include <numeric>
#include <weir/sums.hpp>

#include "support/failing_calls.hpp"

namespace weir::test {
namespace {

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "node:3 rank:1", 0}};

}  // namespace

TEST_CASE("memory runs out while a sum is made and runs", "[failures]") {
  for (const char* algorithm : {"gather", "split", "doubling", "dense"}) {
    for (const FailingRank& machine : machines) {
      fail_every_allocation(algorithm, machine.ranks, machine.victim, machine.description,
                            [&](FailingCalls& calls, Communicator& comm) {
                              const auto call = [&] {
                                std::vector<std::int64_t> indices(300);
                                std::iota(indices.rbegin(), indices.rend(), 0);
                                const std::vector<double> values(300, 1);
                                SparseSum sum(comm, {.count = 1000, .expected_entries = 2, .algorithm = algorithm});
                                sum.run(SumInput::entries(indices, values));
                                sum.run_reduce_scatter(SumInput::entries(indices, values));
                              };
                              if (calls.fail(comm.rank(), algorithm, {}, {}, call) == FailingCalls::Verdict::wrong) return;
                              calls.call(comm.rank(), "another one afterwards", {}, {}, {FailingCalls::Verdict::right}, call);
                            });
    }
  }
}

}  // namespace weir::test
