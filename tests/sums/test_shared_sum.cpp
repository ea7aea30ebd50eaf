// The algorithm `shared`: ranks of a node read each other's entries in shared memory.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "sums/node_lists.hpp"
#include "sums/sum_oracle.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

/// Returns ascending entries of each rank: `each` on average, in `clusters` (0: anywhere) of [0, count).
std::vector<SumList<double>> long_lists(int ranks, std::int64_t count, std::int64_t each, int clusters, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<SumList<double>> lists(static_cast<std::size_t>(ranks));
  for (SumList<double>& list : lists) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = dice.between(each / 2, each + each / 2); i > 0; --i) {
      const std::int64_t anywhere = dice.between(0, count - 1);
      indices.push_back(clusters == 0 ? anywhere : anywhere % (count / 100) + anywhere % clusters * (count / clusters));
    }
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    for (const std::int64_t index : indices) list.push_back({index, sum_value<double>(dice)});
  }
  return lists;
}

}  // namespace

TEST_CASE("ranks of a node merge a part each, and late ranks still find what they read", "[sums]") {
  constexpr std::int64_t count = 100000, each = 9000;  // lists that are copied, and longer ones
  for (const int ranks : {2, 3, 4, 7}) {
    for (const SumOperation operation : {SumOperation::sum, SumOperation::reproducible_sum}) {
      std::vector<std::vector<SumList<double>>> inputs;
      for (std::uint64_t run = 0; run < 4; ++run) inputs.push_back(long_lists(ranks, count, each, run % 2 == 0 ? 0 : 3, run));
      inputs.push_back(inputs[0]);
      for (std::size_t rank = 1; rank < inputs.back().size(); ++rank) inputs.back()[rank] = inputs.back()[0];
      inputs.push_back(inputs[1]);
      for (std::size_t rank = 0; rank + 1 < inputs.back().size(); ++rank) inputs.back()[rank].clear();
      std::vector<SumMap<double>> oracles;
      for (const auto& input : inputs) {
        if (operation == SumOperation::sum) oracles.push_back(sum_oracle(operation, input));
      }
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        SparseSum sum(comm, {.count = count, .operation = operation, .expected_entries = 2 * each, .algorithm = "shared"});
        SparseSum other(comm, {.count = count, .operation = operation, .expected_entries = 2 * each, .algorithm = "gather"});
        for (std::size_t run = 0; run < inputs.size(); ++run) {
          if (static_cast<int>(run) % ranks == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
          const Given<double> mine(inputs[run][static_cast<std::size_t>(comm.rank())]);
          sum.run(mine.input());
          const SumView<double> view = sum.result<double>();
          if (operation == SumOperation::sum) {
            check.that(same_sum(view, oracles[run], 0, count), "run " + std::to_string(run));
          } else {
            other.run(mine.input());
            const SumView<double> right = other.result<double>();
            check.that(std::ranges::equal(view.indices, right.indices) && std::ranges::equal(view.values, right.values),
                       "run " + std::to_string(run));
          }
          check.that(sum.statistics().algorithm == "shared", "another algorithm");
        }
        const Given<double> mine(inputs[0][static_cast<std::size_t>(comm.rank())]);
        sum.run_reduce_scatter(mine.input());
        if (operation == SumOperation::sum)
          check.that(same_sum(sum.result<double>(), oracles[0], sum.range_begin(comm.rank()), sum.range_begin(comm.rank() + 1)),
                     "a range");
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("short lists are shown with indices of 32 bits, others with 64", "[sums]") {
  constexpr std::int64_t most = sums::NodeLists<double>::most_short, four_billion = std::int64_t{1} << 32;
  const std::vector<std::int64_t> sizes = {0, 1, 15, most - 1, most, most + 1, 6 * most};
  for (const std::int64_t count : {std::int64_t{100000}, four_billion, four_billion + 1, std::int64_t{1} << 45}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      SparseSum sum(comm, {.count = count, .expected_entries = sizes.back(), .algorithm = "shared"});
      SparseSum gathered(comm, {.count = count, .algorithm = "gather"});
      for (std::size_t run = 0; run < 2 * sizes.size(); ++run) {
        // The last element of the array is among them.
        const std::int64_t size = sizes[(run + static_cast<std::size_t>(2 * comm.rank())) % sizes.size()];
        std::vector<std::int64_t> indices;
        for (std::int64_t i = 1; i <= size; ++i) indices.push_back(i == size ? count - 1 : count / (size + 1) * i + comm.rank());
        const std::vector<double> values(indices.size(), comm.rank() + 0.1);
        sum.run(SumInput::entries(indices, values));
        gathered.run(SumInput::entries(indices, values));
        const SumView<double> one = sum.result<double>(), other = gathered.result<double>();
        check.that(std::ranges::equal(one.indices, other.indices) && std::ranges::equal(one.values, other.values),
                   "run " + std::to_string(run));
        check.that(sum.statistics().algorithm == "shared", "another algorithm");
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("lists that do not fit are summed by another algorithm, whichever rank has them", "[sums]") {
  constexpr std::int64_t count = 3000;
  for (const char* algorithm : {"shared", "auto"}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      SparseSum sum(comm, {.count = count, .expected_entries = 20, .algorithm = algorithm});
      for (int run = 0; run < 12; ++run) {
        const auto entries_of = [&](int rank) { return run % 4 == rank ? 21 + run : 20; };
        std::vector<std::int64_t> indices(static_cast<std::size_t>(entries_of(comm.rank())));
        std::iota(indices.begin(), indices.end(), run);
        sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), run + comm.rank())));
        const SumView<double> view = sum.result<double>();
        const int longest = std::max({entries_of(0), entries_of(1), entries_of(2)});
        check.that(std::ssize(view.indices) == longest && view.values[0] == 3 * run + 3, "run " + std::to_string(run));
        check.that((sum.statistics().algorithm == "shared") == (run % 4 == 3), "the algorithm of run " + std::to_string(run));
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("shared is refused on several nodes, and without shared memory another algorithm sums", "[sums]") {
  SameErrors errors(4);
  run_ranks(4,
            [&](Communicator& comm) {
              errors.expect(comm.rank(), WEIR_ERR_ARGUMENT,
                            "sum 'flux': algorithm 'shared' needs all ranks on one node, and they are on 2: auto takes another one",
                            [&] { SparseSum(comm, {.count = 10, .algorithm = "shared", .name = "flux"}); });
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(errors.failure() == "");
  RankCheck check;
  run_ranks(2,
            [&](Communicator& comm) {
              SparseSum sum(comm, {.count = 10, .algorithm = "shared"});
              sum.run(SumInput::dense(std::vector<double>(10, 1)));
              check.that(sum.result<double>().values[9] == 2 && sum.statistics().algorithm != "shared", "without shared memory");
            },
            {.fault = {.shared_memory_room = 0}});
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
