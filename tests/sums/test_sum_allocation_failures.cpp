// Memory runs out on one rank, at every allocation in making a sum and in its first runs. Every rank ends with the same result, and
// the communicator still works.
#include <numeric>
#include <weir/sums.hpp>

#include "sums/sum_oracle.hpp"
#include "support/failing_calls.hpp"

namespace weir::test {
namespace {

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "node:3 rank:1", 0}};

}  // namespace

TEST_CASE("memory runs out while a sum is made and runs", "[failures]") {
  std::vector<std::int64_t> indices(300);
  std::iota(indices.rbegin(), indices.rend(), 0);
  const std::vector<double> values(300, 1);
  for (const char* algorithm : {"gather", "split", "hash", "doubling", "dense", "blocks", "shared"}) {
    for (const FailingRank& machine : machines) {
      if (algorithm == std::string("shared") && machine.ranks == 3) continue;  // on three nodes
      fail_every_allocation(algorithm, machine.ranks, machine.victim, machine.description,
                            [&](FailingCalls& calls, Communicator& comm) {
                              const auto call = [&] {
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

TEST_CASE("memory runs out while nodes sum first, and a few ranks need more than others", "[failures]") {
  std::array<std::vector<std::int64_t>, 2> slices;  // each list lies in one
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i].resize(300);
    std::iota(slices[i].begin(), slices[i].end(), 600 * static_cast<std::int64_t>(i));
  }
  const std::vector<double> values(300, 1);
  for (const int victim : {0, 1, 3}) {
    fail_every_allocation("hierarchical", 4, victim, "node:2 rank:2", [&](FailingCalls& calls, Communicator& comm) {
      const auto call = [&] {
        SparseSum sum(comm, {.count = 1000, .expected_entries = 300, .algorithm = "hierarchical"});
        for (const std::vector<std::int64_t>& indices : slices) sum.run(SumInput::entries(indices, values));
      };
      if (calls.fail(comm.rank(), "hierarchical", {}, {}, call) == FailingCalls::Verdict::wrong) return;
      calls.call(comm.rank(), "another one afterwards", {}, {}, {FailingCalls::Verdict::right}, call);
    });
  }
}

TEST_CASE("memory runs out while a region of a reproducible sum grows", "[failures]") {
  const std::vector<std::int64_t> indices(300, 7);
  const std::vector<double> values(300, 1);
  for (const FailingRank& machine : machines) {
    fail_every_allocation(
        "split", machine.ranks, machine.victim, machine.description, [&](FailingCalls& calls, Communicator& comm) {
          const auto call = [&] {
            SparseSum sum(
                comm, {.count = 1000, .operation = SumOperation::reproducible_sum, .expected_entries = 2, .algorithm = "split"});
            sum.run(SumInput::entries(indices, values));
          };
          if (calls.fail(comm.rank(), "split", {}, {}, call) == FailingCalls::Verdict::wrong) return;
          calls.call(comm.rank(), "another one afterwards", {}, {}, {FailingCalls::Verdict::right}, call);
        });
  }
}

TEST_CASE("memory runs out while the part of a rank grows to which a hash gives all entries", "[failures]") {
  for (const FailingRank& machine : machines) {
    const std::vector<std::int64_t> indices = indices_of_one_owner(machine.ranks);
    const std::vector<double> values(indices.size(), 1);
    for (const char* algorithm : {"hash", "blocks"}) {
      fail_every_allocation(algorithm, machine.ranks, machine.victim, machine.description,
                            [&](FailingCalls& calls, Communicator& comm) {
                              const auto call = [&] {
                                SparseSum sum(comm, {.count = 1 << 20, .expected_entries = 2, .algorithm = algorithm});
                                sum.run(SumInput::entries(indices, values));
                              };
                              if (calls.fail(comm.rank(), algorithm, {}, {}, call) == FailingCalls::Verdict::wrong) return;
                              calls.call(comm.rank(), "another one afterwards", {}, {}, {FailingCalls::Verdict::right}, call);
                            });
    }
  }
}

TEST_CASE("after memory ran out once for longer lists, the same sum goes on", "[failures]") {
  std::vector<std::int64_t> indices(3000);
  std::iota(indices.rbegin(), indices.rend(), 0);
  const std::vector<double> values(3000, 1);
  for (const char* algorithm : {"gather", "split", "hash", "doubling", "dense", "blocks"}) {
    for (const FailingRank& machine : machines) {
      bool failed = true;
      for (std::int64_t nth = 1; failed; ++nth) {
        // The sum's own memory comes first. Later allocations may be the transport's, in the middle of an exchange.
        constexpr std::int64_t own_allocations = 6;
        std::vector<FailingCalls::Verdict> allowed = {FailingCalls::Verdict::right};
        if (nth > own_allocations) allowed.push_back(FailingCalls::Verdict::refused);
        INFO(algorithm << " P " << machine.ranks << ": allocation " << nth);
        FailingCalls calls(machine.ranks, machine.victim, nth, Failing::once);
        run_ranks(machine.ranks,
                  [&](Communicator& comm) {
                    SparseSum sum(comm, {.count = 4000, .expected_entries = 2, .algorithm = algorithm});
                    const auto run = [&](std::size_t entries) {
                      sum.run(SumInput::entries(std::span(indices).last(entries), std::span(values).last(entries)));
                      const SumView<double> result = sum.result<double>();
                      if (result.values.size() != entries || result.values[0] != comm.size())
                        throw Error(WEIR_ERR_INTERNAL, "a wrong sum");
                    };
                    for (int i = 0; i < 3; ++i) run(2);
                    if (calls.fail(comm.rank(), algorithm, {}, {}, [&] { run(3000); }) == FailingCalls::Verdict::wrong) return;
                    for (const std::size_t entries : {2, 3000})
                      calls.call(comm.rank(), "the same sum afterwards", {}, {}, allowed, [&] { run(entries); });
                  },
                  {.machine = machine.description, .settings = {.timeout_seconds = 20, .log = LogLevel::error}});
        REQUIRE(calls.failure() == "");
        failed = calls.failed();
      }
    }
  }
}

}  // namespace weir::test
