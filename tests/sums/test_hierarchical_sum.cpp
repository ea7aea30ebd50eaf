// The algorithm `hierarchical`: ranks of a node read each other's entries, and sums of slices cross the network.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "sums/entry_code.hpp"
#include "sums/sum_oracle.hpp"
#include "sums/sum_row.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"
#include "topology/topology.hpp"

namespace weir::test {
namespace {

int ranks_of(const std::string& machine) { return static_cast<int>(synthetic_machine(machine).size()); }

template <class T>
void check_type() {
  for (const char* machine :
       {"node:2 rank:2", "node:3 rank:2", "node:2 rank:4", "node:5 rank:2", "node:2 rank:8", "node:9 rank:4"}) {
    for (const SumOperation operation : {SumOperation::sum, SumOperation::min, SumOperation::max}) {
      if (left_out(3)) continue;
      const auto cases = sum_cases<T>(operation, ranks_of(machine));
      RankCheck check;
      run_ranks(ranks_of(machine),
                [&](Communicator& comm) {
                  for (const SumCase<T>& tried : cases) {
                    SparseSum sum(comm, {.count = tried.count,
                                         .type = detail::sum_type_of<T>,
                                         .operation = operation,
                                         .expected_entries = std::min<std::int64_t>(tried.count, 300),
                                         .algorithm = "hierarchical"});
                    const Given<T> mine(tried.input[static_cast<std::size_t>(comm.rank())]);
                    for (int run = 0; run < 2; ++run) {
                      sum.run(mine.input());
                      check.that(same_sum(sum.result<T>(), tried.sum, 0, tried.count), std::string(machine) + ", " + tried.text);
                      check.that(sum.statistics().algorithm == "hierarchical", "another algorithm");
                    }
                    sum.run_reduce_scatter(mine.input());
                    check.that(same_sum(sum.result<T>(), tried.sum, sum.range_begin(comm.rank()), sum.range_begin(comm.rank() + 1)),
                               std::string(machine) + ", " + tried.text + ": a range");
                    check.that(sum.statistics().algorithm != "hierarchical", "it makes no ranges");
                  }
                },
                {.machine = machine});
      REQUIRE(check.failure() == "");
    }
  }
}

}  // namespace

TEST_CASE("float32: nodes sum first, with the bits of maps", "[sums]") { check_type<float>(); }
TEST_CASE("float64: nodes sum first, with the bits of maps", "[sums]") { check_type<double>(); }
TEST_CASE("int32: nodes sum first, with the bits of maps", "[sums]") { check_type<std::int32_t>(); }
TEST_CASE("int64: nodes sum first, with the bits of maps", "[sums]") { check_type<std::int64_t>(); }

TEST_CASE("a slice may have far more entries than there is shared memory for at once", "[sums]") {
  for (const char* machine : {"node:4 rank:2", "node:3 rank:4"}) {
    const int ranks = ranks_of(machine);
    RankCheck check;
    run_ranks(ranks,
              [&](Communicator& comm) {
                SparseSum sum(comm, {.count = 100000, .expected_entries = 5, .algorithm = "hierarchical"});
                for (int run = 0; run < 6; ++run) {
                  // All in the first slice, and other ones on each rank.
                  std::vector<std::int64_t> indices(5);
                  std::iota(indices.begin(), indices.end(), 100 * run + 5 * comm.rank());
                  sum.run(SumInput::entries(indices, std::vector<double>(5, comm.rank())));
                  const SumView<double> view = sum.result<double>();
                  check.that(std::ssize(view.indices) == 5 * ranks, "the number of entries");
                  for (std::size_t i = 0; i < view.indices.size(); ++i)
                    check.that(view.indices[i] == 100 * run + static_cast<int>(i) && view.values[i] == static_cast<int>(i) / 5,
                               "an entry");
                  check.that(sum.statistics().algorithm == "hierarchical", "another algorithm");
                }
              },
              {.machine = machine});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("lists of some ranks do not fit, and another algorithm sums on several nodes", "[sums]") {
  for (const char* algorithm : {"hierarchical", "auto"}) {
    RankCheck check;
    run_ranks(4,
              [&](Communicator& comm) {
                SparseSum sum(comm, {.count = 3000, .expected_entries = 20, .algorithm = algorithm});
                for (int run = 0; run < 10; ++run) {
                  const auto entries_of = [&](int rank) { return run % 5 == rank ? 21 + run : 20; };
                  std::vector<std::int64_t> indices(static_cast<std::size_t>(entries_of(comm.rank())));
                  std::iota(indices.begin(), indices.end(), run);
                  sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), run + comm.rank())));
                  const SumView<double> view = sum.result<double>();
                  check.that(std::ssize(view.indices) == (run % 5 < 4 ? 21 + run : 20) && view.values[0] == 4 * run + 6,
                             "run " + std::to_string(run));
                  if (run % 5 != 4)
                    check.that(sum.statistics().algorithm != "hierarchical", "the algorithm of run " + std::to_string(run));
                }
              },
              {.machine = "node:2 rank:2"});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("nodes with few entries merge before they know of the others, and nodes with many do not", "[sums]") {
  // Entries of each rank on the three nodes, run by run. Without a promise, memory grows after some nodes have merged.
  constexpr std::int64_t many = sums::entries_to_merge_first;
  const std::vector<std::array<std::int64_t, 3>> runs = {{5, 5, 5},       {5, 300, 0},      {5, 0, 900},        {many, 7, 40},
                                                         {7, many, many}, {0, many / 2, 3}, {many, many, many}, {2, 2, 2}};
  for (const bool promised : {false, true}) {
    RankCheck check;
    run_ranks(6,
              [&](Communicator& comm) {
                const std::int64_t expected = promised ? many : 0;
                SparseSum sum(comm, {.count = 100000, .expected_entries = expected, .algorithm = "hierarchical"});
                SparseSum gathered(comm, {.count = 100000, .algorithm = "gather"});
                for (std::size_t run = 0; run < runs.size(); ++run) {
                  const auto size = static_cast<std::size_t>(runs[run][static_cast<std::size_t>(comm.rank() / 2)]);
                  std::vector<std::int64_t> indices(size);
                  for (std::size_t i = 0; i < size; ++i)
                    indices[i] = static_cast<std::int64_t>(i * (3 + static_cast<std::size_t>(comm.rank())) + run);
                  const std::vector<double> values(size, 0.1 * (comm.rank() + 1));
                  sum.run(SumInput::entries(indices, values));
                  gathered.run(SumInput::entries(indices, values));
                  const SumView<double> one = sum.result<double>(), other = gathered.result<double>();
                  check.that(std::ranges::equal(one.indices, other.indices) && std::ranges::equal(one.values, other.values),
                             "run " + std::to_string(run));
                  check.that(!promised || sum.statistics().algorithm == "hierarchical", "another algorithm");
                }
              },
              {.machine = "node:3 rank:2"});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("short slices travel with the cards, as far as those of the last run have left room", "[sums]") {
  struct Lists {
    int entries;    // of each rank, spread evenly
    bool one_node;  // the others have none
    bool carried;   // on four nodes of two ranks
  };
  const std::vector<Lists> runs = {{900, false, false}, {900, false, false}, {20, false, false}, {20, false, true},
                                   {21, false, true},   {40, false, false},  {40, false, true},  {40, true, true},
                                   {40, true, true},    {4, false, true},    {4, false, true},   {20, false, false},
                                   {0, false, true},    {0, false, true},    {2, false, false},  {0, false, true},
                                   {500, true, false},  {500, true, false},  {20, false, false}, {20, false, true}};
  for (const char* machine : {"node:4 rank:2", "node:2 rank:4", "node:5 rank:2"}) {
    const Topology places(synthetic_machine(machine), 0);
    RankCheck check;
    run_ranks(ranks_of(machine),
              [&](Communicator& comm) {
                constexpr std::int64_t count = 100000;
                SparseSum sum(comm, {.count = count, .expected_entries = 900, .algorithm = "hierarchical"});
                SparseSum gathered(comm, {.count = count, .algorithm = "gather"});
                const bool four = places.node_count() == 4;
                for (std::size_t run = 0; run < runs.size(); ++run) {
                  const bool empty = runs[run].one_node && places.node_of(comm.rank()) != 1;
                  std::vector<std::int64_t> indices(empty ? 0 : static_cast<std::size_t>(runs[run].entries));
                  for (std::size_t i = 0; i < indices.size(); ++i)
                    indices[i] = static_cast<std::int64_t>(i) * count / std::ssize(indices) + comm.rank();
                  const std::vector<double> values(indices.size(), 0.1 * (comm.rank() + 1));
                  sum.run(SumInput::entries(indices, values));
                  gathered.run(SumInput::entries(indices, values));
                  const SumView<double> one = sum.result<double>(), other = gathered.result<double>();
                  const std::string text = std::string(machine) + ", run " + std::to_string(run);
                  check.that(std::ranges::equal(one.indices, other.indices) && std::ranges::equal(one.values, other.values), text);
                  const auto& messages = sum.statistics().messages_sent;
                  const bool carried =
                      std::accumulate(messages.begin(), messages.end(), std::int64_t{0}) == 2;  // log2 of the nodes
                  check.that(!four || carried == runs[run].carried, text + ": the messages");
                  if (!four || !carried || runs[run].one_node || runs[run].entries % 2 != 0) continue;
                  const std::int64_t slice = sums::message_bytes<double>(runs[run].entries, count / 2);
                  check.that(sum.statistics().payload_bytes_sent == 3 * slice, text + ": payload sent");
                  check.that(sum.statistics().payload_bytes_received == 3 * slice, text + ": payload received");
                }
              },
              {.machine = machine});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a run after a reduce-scatter or a wrong call has no room for slices, and the next one has", "[sums]") {
  RankCheck check;
  run_ranks(8,
            [&](Communicator& comm) {
              SparseSum sum(comm, {.count = 1000, .expected_entries = 20, .algorithm = "hierarchical"});
              std::vector<std::int64_t> indices(20);
              for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i) * 50 + comm.rank();
              const std::vector<double> values(indices.size(), 1);
              const auto run = [&](std::int64_t messages, const char* text) {
                sum.run(SumInput::entries(indices, values));
                const auto& sent = sum.statistics().messages_sent;
                check.that(sum.statistics().entries_sum == 160, text);
                check.that(messages == 0 || std::accumulate(sent.begin(), sent.end(), std::int64_t{0}) == messages, text);
              };
              const auto run_twice = [&](const char* text) {
                run(4, text);  // cards and slices, in log2 of the nodes messages each
                run(2, text);
              };
              run(0, "the first run");  // memory grows
              run(2, "the second run");
              sum.run_reduce_scatter(SumInput::entries(indices, values));
              run_twice("after a reduce-scatter");
              try {
                sum.run(SumInput::entries(std::vector<std::int64_t>{comm.rank() == 3 ? 1000 : 0}, std::vector<double>{1}));
                check.that(false, "an index out of range was taken");
              } catch (const Error& error) {
                check.that(error.status() == WEIR_ERR_ARGUMENT, error.what());
              }
              run_twice("after a wrong call");
            },
            {.machine = "node:4 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("what the lists of a node have in common crosses the network once", "[sums]") {
  RankCheck check;
  run_ranks(16,
            [&](Communicator& comm) {
              std::vector<std::int64_t> indices(1000);
              std::iota(indices.begin(), indices.end(), 0);
              std::int64_t across[2] = {};
              for (const bool first : {false, true}) {
                SparseSum sum(comm, {.count = 100000, .expected_entries = 1000, .algorithm = first ? "hierarchical" : "split"});
                sum.run(SumInput::entries(indices, std::vector<double>(1000, 1)));
                const auto& sent = sum.statistics().bytes_sent;
                across[first ? 1 : 0] =
                    std::accumulate(sent.begin() + static_cast<std::ptrdiff_t>(Level::node) + 1, sent.end(), std::int64_t{0});
              }
              check.that(comm.rank() % 8 != 0 || across[1] > 0, "nothing was sent");
              check.that(comm.rank() % 8 == 0 || 2 * across[1] < across[0] + 512, "as much was sent as by split");
            },
            {.machine = "node:2 rank:8"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("hierarchical is refused where the order of ranks does not follow the nodes", "[sums]") {
  for (const char* machine : {"nodes:3,1,2", "node:2 rank:3", "node:4 rank:1"}) {
    const int ranks = ranks_of(machine);
    SameErrors errors(ranks);
    run_ranks(ranks,
              [&](Communicator& comm) {
                errors.expect(
                    comm.rank(), WEIR_ERR_ARGUMENT,
                    "sum 'flux': algorithm 'hierarchical' needs 2, 4, 8 or another power of two of consecutive ranks on each "
                    "node: auto takes another one",
                    [&] { SparseSum(comm, {.count = 10, .algorithm = "hierarchical", .name = "flux"}); });
              },
              {.machine = machine});
    REQUIRE(errors.failure() == "");
  }
}

}  // namespace weir::test
