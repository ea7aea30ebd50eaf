// Every sparse algorithm in plans on virtual ranks, with exact selection, equals the oracle bit for bit.
#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/contract.hpp"
#include "support/inproc_ranks.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

template <class T>
void check_exact(ContractCase c) {
  if (left_out()) return;
  if (has_schedules(c.algorithm)) c.schedule = static_cast<ExchangeSchedule>(c.seed % 4);
  const ContractData<T> data(c);
  RankCheck check;
  run_ranks(c.ranks, [&](Communicator& comm) { check_contract<T>(comm, c, data, check); },
            {.seed = c.seed, .machine = c.machine, .settings = {.timeout_seconds = 120, .shared_memory = c.seed % 2 == 0}});
  REQUIRE(check.failure() == "");
}

/// Returns the sparse algorithms that use the configured selection.
std::vector<std::string> exact_algorithms() {
  std::vector<std::string> names;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (row.sparse() && row.threshold.empty()) names.emplace_back(row.name);
  }
  return names;
}

struct Machine {
  int ranks;
  std::string description;
};
/// Machines: one node, one rank per node, nodes of unequal sizes, more than two levels, ranks dealt out.
const std::vector<Machine>& machines() {
  static const std::vector<Machine> list = {{1, ""},
                                            {3, ""},
                                            {4, "node:2 rank:2"},
                                            {4, "node:4 rank:1"},
                                            {6, "nodes:3,1,2"},
                                            {7, "nodes:4,3"},
                                            {8, "switch:2 node:2 socket:2 rank:1"},
                                            {9, "nodes:2,3,4"}};
  return list;
}

}  // namespace

TEST_CASE("sparse algorithms equal the oracle bit for bit, small grid", "[exact]") {
  std::uint64_t seed = 0;
  for (const std::string& algorithm : exact_algorithms()) {
    for (const Machine& machine : machines()) {
      for (const std::int64_t n : {0, 1, 2, 7, 100, 1000}) {
        for (const std::int64_t k : std::vector<std::int64_t>{0, 1, n / 10, n / 2, n}) {
          if (k > n) continue;
          check_exact<float>({algorithm, machine.ranks, n, k, all_inputs()[seed % all_inputs().size()], seed, machine.description});
          ++seed;
        }
      }
    }
  }
}

TEST_CASE("sparse algorithms equal the oracle bit for bit, every input", "[exact]") {
  std::uint64_t seed = 1;
  for (const std::string& algorithm : exact_algorithms()) {
    for (const Machine& machine : {Machine{2, ""}, Machine{5, "nodes:2,3"}, Machine{8, "node:4 rank:2"}}) {
      for (const Input input : all_inputs()) {
        check_exact<float>({algorithm, machine.ranks, 10007, 211, input, seed++, machine.description});
        check_exact<double>({algorithm, machine.ranks, 3001, 101, input, seed++, machine.description});
      }
    }
  }
}

TEST_CASE("sparse algorithms equal the oracle bit for bit, many ranks", "[exact]") {
  for (const std::string& algorithm : exact_algorithms()) {
    check_exact<float>({algorithm, 33, 5, 3, Input::integers, 0, "node:11 rank:3"});
    check_exact<double>({algorithm, 16, 1000, 100, Input::rank_heavy, 3, "node:4 rank:4"});
    check_exact<float>({algorithm, 33, 10007, 211, Input::heavy_tailed, 4, ""});
  }
  for (const int ranks : {128, 129}) {  // ranks show each other two values in doubt, and none
    for (const std::uint64_t seed : {1, 2, 3}) check_exact<float>({"oktopk", ranks, 900, 60, Input::heavy_tailed, seed, ""});
  }
}

TEST_CASE("oktopk equals the oracle and keeps its volume bound on every input, many ranks", "[exact]") {
  for (const int ranks : {3, 4, 7, 16, 33}) {
    for (const Input input : all_inputs())
      check_exact<float>({"oktopk", ranks, 20011, 211, input, static_cast<std::uint64_t>(ranks)});
  }
}

/// Machines with switch groups: with two levels in the nodes and with one, of unequal sizes, of one node, of one part, and with
/// ranks that have no shard or part.
TEST_CASE("hi_oktopk by switch group equals the oracle bit for bit", "[exact][switches]") {
  const std::vector<Machine> by_switch = {
      {4, "switch:2 node:2 rank:1"},  {6, "switches:2,3,1 rank:1"},  {8, "switch:2 node:2 rank:2"},  {9, "switch:3 node:3 rank:1"},
      {10, "switches:3,2 rank:2"},    {12, "switches:1,3,2 rank:2"}, {12, "switch:3 node:2 rank:2"}, {7, "switches:4,3 rank:1"},
      {18, "switch:3 node:3 rank:2"}, {33, "switches:5,3,3 rank:3"}};
  std::uint64_t seed = 2;
  for (const Machine& machine : by_switch) {
    for (const std::int64_t n : {0, 1, 2, 7, 100, 1000}) {
      for (const std::int64_t k : std::vector<std::int64_t>{0, 1, n / 10, n / 2, n}) {
        if (k > n) continue;
        check_exact<float>({"hi_oktopk", machine.ranks, n, k, all_inputs()[seed % all_inputs().size()], seed, machine.description});
        ++seed;
      }
    }
    for (const Input input : all_inputs()) {
      check_exact<float>({"hi_oktopk", machine.ranks, 3001, 101, input, seed++, machine.description});
      check_exact<double>({"hi_oktopk", machine.ranks, 3001, 101, input, seed++, machine.description});
    }
  }
}

}  // namespace weir::test
