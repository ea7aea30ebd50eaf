// Exchanges along switches: the groups, their shares of k, and the most that hi_oktopk sends to other groups.
#include <numeric>

#include "collectives/oktopk_volume.hpp"
#include "collectives/switch_groups.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

std::vector<int> list(std::span<const int> ranks) { return {ranks.begin(), ranks.end()}; }

constexpr auto system_level = static_cast<std::size_t>(Level::system);

struct Volume {
  std::string machine;
  std::int64_t n, k;
  Input input;
  std::string threshold = "exact";
  WireFormat wire_format = WireFormat::coo;  // an entry takes two words, as the bound assumes
};

/// Checks the bytes that each group sends to others and receives from them, in every iteration, against the bound.
void check_switch_volume(const Volume& v) {
  if (left_out()) return;
  INFO("on '" << v.machine << "' n " << v.n << " k " << v.k << " input " << input_name(v.input) << ' ' << v.threshold);
  const std::vector<Location> machine = synthetic_machine(v.machine);
  const Topology topology(machine, 0);
  const int ranks = topology.size(), groups = topology.switch_count(), shards = topology.smallest_node();
  const int parts = find_switch_groups(topology)->parts();
  constexpr std::size_t iterations = 7;
  std::vector<std::vector<std::int64_t>> sent(iterations, std::vector<std::int64_t>(static_cast<std::size_t>(groups)));
  auto received = sent;
  std::mutex mutex;
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = v.n,
                                        .k = v.k,
                                        .algorithm = "hi_oktopk",
                                        .algorithm_parameters = "boundary_period=4,schedule=direct",
                                        .threshold = v.threshold,
                                        .threshold_parameters = period_of(v.threshold, 100),
                                        .wire_format = v.wire_format});
              const auto group = static_cast<std::size_t>(topology.switch_of(comm.rank()));
              for (std::size_t t = 0; t < iterations; ++t) {
                plan.run_sparse(make_input<float>(v.input, v.n, comm.rank(), ranks, static_cast<int>(t)));
                const Statistics& s = plan.statistics();
                check.at_most(4 * s.selected_global, 5 * v.k, "iteration " + std::to_string(t) + " delivered");
                const std::scoped_lock lock(mutex);
                sent[t][group] += s.bytes_sent[system_level];
                received[t][group] += s.bytes_received[system_level];
              }
            },
            {.seed = static_cast<std::uint64_t>(ranks), .machine = v.machine});
  REQUIRE(check.failure() == "");
  // The shards' parts of k add up to k.
  const std::int64_t words = hi_oktopk_switch_words(v.k, groups, parts) + (shards - 1) * hi_oktopk_switch_words(0, groups, parts) +
                             shards * hi_oktopk_switch_control_words<float>(groups, parts);
  for (std::size_t t = 0; t < iterations; ++t) {
    for (std::size_t group = 0; group < sent[t].size(); ++group) {
      INFO("iteration " << t << " group " << group);
      REQUIRE(sent[t][group] <= 4 * words);
      REQUIRE(received[t][group] <= 4 * words);
    }
  }
}

}  // namespace

TEST_CASE("switch groups: who has which part", "[switches]") {
  const std::vector<Location> machine = synthetic_machine("switches:2,3 rank:2");  // nodes 0-1, 2-4; ranks 0-3, 4-9
  const SwitchGroups first(Topology(machine, 2));
  REQUIRE(first.groups() == 2);
  REQUIRE(first.parts() == 2);
  REQUIRE(first.mine() == 1);
  REQUIRE(list(first.members()) == std::vector{0, 2});
  REQUIRE(list(first.counterparts()) == std::vector{2, 6});
  const SwitchGroups last(Topology(machine, 9));
  REQUIRE(last.mine() == -1);
  REQUIRE(list(last.members()) == std::vector{5, 7, 9});
}

TEST_CASE("switch groups: ranks dealt out to nodes in turn", "[switches]") {
  std::vector<Location> machine = synthetic_machine("switch:2 node:2 rank:1");
  std::swap(machine[1], machine[2]);  // nodes of both switches alternate
  const SwitchGroups groups(Topology(machine, 3));
  REQUIRE(list(groups.members()) == std::vector{1, 3});
  REQUIRE(list(groups.counterparts()) == std::vector{2, 3});
}

TEST_CASE("switch groups: only where there are several, of several nodes, all known", "[switches]") {
  const auto text_on = [](const std::vector<Location>& machine) {
    const Topology topology(machine, 0);
    const std::string text = switch_groups_text(topology);
    REQUIRE((find_switch_groups(topology) != nullptr) == text.starts_with("goes by "));
    return text;
  };
  REQUIRE(text_on(synthetic_machine("switch:2 node:2 rank:2")) == "goes by 2 switches of 2 to 2 nodes");
  REQUIRE(text_on(synthetic_machine("switches:1,4 rank:2")) == "goes by 2 switches of 1 to 4 nodes");
  REQUIRE(text_on(synthetic_machine("node:4 rank:2")) == "does not go by switches: none are known");
  REQUIRE(text_on(synthetic_machine("switch:1 node:4 rank:2")) == "does not go by switches: all nodes share one");
  REQUIRE(text_on(synthetic_machine("switch:4 node:1 rank:2")) == "does not go by switches: there is one node on each");
  std::vector<Location> machine = synthetic_machine("switch:2 node:2 rank:2");
  for (const std::size_t rank : {4, 5}) store_name(machine[rank].switch_address, "");
  REQUIRE(text_on(machine) == "does not go by switches: that of node n2 is not known");
}

TEST_CASE("shares by counts add up, exceed no part, and none starves", "[switches]") {
  const std::vector<std::vector<std::uint64_t>> cases = {
      {0}, {5}, {0, 0, 0}, {1, 0, 1}, {7, 1}, {0, 3, 0, 9, 1}, {1, 1, 1, 1, 1}, {1000, 1, 999, 3}, {std::uint64_t{1} << 40, 1, 1}};
  for (const std::vector<std::uint64_t>& counts : cases) {
    const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    for (const std::int64_t k : {0, 1, 2, 3, 7, 1000}) {
      const auto parts = static_cast<std::int64_t>(counts.size());
      std::vector<std::int64_t> had(counts.size());
      for (std::int64_t t = 0; t < parts; ++t) {
        std::int64_t sum = 0;
        for (int part = 0; part < parts; ++part) {
          INFO("k " << k << " part " << part << " of " << parts << " iteration " << t);
          const auto of_part = static_cast<double>(counts[static_cast<std::size_t>(part)]);
          const std::int64_t share = share_by_counts(k, counts, part, t);
          REQUIRE(share >= 0);
          if (total > 0)
            REQUIRE(static_cast<double>(share) <= std::ceil(static_cast<double>(k) * of_part / static_cast<double>(total)));
          sum += share;
          had[static_cast<std::size_t>(part)] += share;
        }
        REQUIRE(sum == (total > 0 ? k : 0));
      }
      if (total >> 32 != 0) continue;  // taken coarsely
      for (std::size_t part = 0; part < counts.size(); ++part) REQUIRE((had[part] > 0) == (k > 0 && counts[part] > 0));
    }
  }
}

TEST_CASE("a group sends at most 3 k entries, whatever it has selected", "[switches]") {
  for (const int groups : {2, 3, 4, 16}) {
    for (const std::int64_t k : {1, 2, 7, 100, 1003}) {
      REQUIRE(k_across_groups(k, k, groups) == k);
      REQUIRE(k_across_groups(k, 0, groups) == k);
      for (std::int64_t largest = k; largest <= k + k / 4; ++largest) {
        const std::int64_t across = k_across_groups(k, largest, groups);
        REQUIRE((across >= 1 && across <= k));
        REQUIRE(largest + 2 * across * (groups - 1) / groups <= 3 * k);
      }
    }
  }
}

TEST_CASE("6k words between switches on any input, however many nodes a switch has", "[switches][volume]") {
  for (const std::string machine : {"switch:2 node:2 rank:1", "switch:2 node:8 rank:1", "switch:2 node:4 rank:2",
                                    "switch:4 node:4 rank:1", "switches:2,5,3 rank:2", "switches:1,6 rank:1"}) {
    for (const Input input : all_inputs()) {
      for (const std::string threshold : {"exact", "reuse", "gaussian"})
        check_switch_volume({machine, 60013, 6007, input, threshold});
    }
    check_switch_volume({machine, 60013, 6007, Input::heavy_tailed, "exact", WireFormat::compact});
    for (const std::int64_t k : {1, 7}) check_switch_volume({machine, 1000, k, Input::elsewhere});
  }
}

TEST_CASE("hi_oktopk delivers k entries by switch group too", "[switches]") {
  for (const std::string machine : {"switch:2 node:2 rank:2", "switches:3,5 rank:1"}) {
    RankCheck check;
    run_ranks(8,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = 3001, .k = 300, .algorithm = "hi_oktopk"});
                for (int t = 0; t < 5; ++t) {
                  plan.run_sparse(make_input<float>(Input::elsewhere, 3001, comm.rank(), 8, t));
                  check.that(plan.statistics().selected_global == 300,
                             "delivered " + std::to_string(plan.statistics().selected_global));
                }
              },
              {.machine = machine});
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
