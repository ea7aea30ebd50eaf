// Costs of sums against figures computed by hand and against what is sent, and the choice by cost.
#include <cmath>
#include <numeric>
#include <weir/sums.hpp>

#include "sums/sum_row.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/slow_machine.hpp"
#include "topology/topology.hpp"

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;
#endif

namespace weir::test {
namespace {

Problem on_nodes(int nodes, int per_node) {
  return {.ranks = nodes * per_node, .nodes = nodes, .smallest_node = per_node, .largest_node = per_node};
}

/// Returns a sum of doubles to which every rank gives `each` entries.
sums::SumProblem doubles(int ranks, std::int64_t count, std::int64_t each) { return {ranks, count, ranks * each, each, 8}; }

std::string_view chosen(const Problem& places, std::int64_t count, std::int64_t each) {
  return choose_sum(model::Setting(builtin_machine(), places), doubles(places.ranks, count, each)).name;
}

/// Returns `each` indices, a random one of each equal part.
std::vector<std::int64_t> random_indices(int rank, std::int64_t count, std::int64_t each) {
  Dice dice(static_cast<std::uint64_t>(rank) + 1);
  std::vector<std::int64_t> indices;
  const std::int64_t gap = count / each;
  for (std::int64_t i = 0; i < each; ++i) indices.push_back(gap * i + dice.between(0, gap - 1));
  return indices;
}

struct SentBytes {
  double in_node = 0, across = 0;
};

/// Returns the most that a rank of the machine sends in a sum of doubles.
SentBytes sent_bytes(const std::string& machine, std::string_view algorithm, std::int64_t count, std::int64_t each) {
  const int ranks = static_cast<int>(synthetic_machine(machine).size());
  std::vector<SentBytes> sent(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) {
              SparseSum sum(comm, {.count = count, .expected_entries = each, .algorithm = std::string(algorithm)});
              const std::vector<std::int64_t> indices = random_indices(comm.rank(), count, each);
              // In the second run, there is room for slices in the first message.
              for (int run = 0; run < 2; ++run) sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), 1)));
              const auto& levels = sum.statistics().bytes_sent;
              const auto inside = static_cast<std::ptrdiff_t>(Level::node) + 1;
              sent[static_cast<std::size_t>(comm.rank())] = {
                  static_cast<double>(std::accumulate(levels.begin(), levels.begin() + inside, std::int64_t{0})),
                  static_cast<double>(std::accumulate(levels.begin() + inside, levels.end(), std::int64_t{0}))};
            },
            {.machine = machine});
  SentBytes most;
  for (const SentBytes& rank : sent) most = {std::max(most.in_node, rank.in_node), std::max(most.across, rank.across)};
  return most;
}

}  // namespace

TEST_CASE("costs of gather and doubling by hand, on four nodes and on two", "[sums]") {
  const Machine machine = slow_machine();
  const sums::SumProblem problem = doubles(4, 1600, 80);
  const auto seconds = [&](const Problem& places, std::string_view row) {
    return cost_of_sum(*sums::find_sum(row), model::Setting(machine, places), problem).seconds;
  };
  const auto card = static_cast<double>(sums::card_bytes);
  const double list = 80 * (8 + 6.25 / 8), pair = 156 * (8 + (4 + 1600.0 / 156 / 8) / 8);
  const double merge = 80 * 0.6, encode = 80 * 0.4, decode = 80 * 0.3;
  const double computing = 80 / encode + 3 * 80 / decode + (320 + 312) / merge;
  REQUIRE(seconds(on_nodes(4, 1), "gather") ==
          Approx(1 + card / 100 + 1 + 2 * card / 50 + 1 + list / 100 + 1 + 2 * list / 50 + computing));
  // Two ranks of a node share its card where both send to the other node.
  REQUIRE(seconds(on_nodes(2, 2), "gather") ==
          Approx(1 + card / 100 + 1 + 2 * card / 25 + 1 + list / 100 + 1 + 2 * list / 25 + computing));

  const double steps = (80 + 156) / encode + (80 + 156) / decode + 2 * (80 + 156) / merge;
  REQUIRE(seconds(on_nodes(4, 1), "doubling") ==
          Approx(1 + card / 100 + 1 + 2 * card / 50 + 2 * (1 + 8 / 50.0) + 1 + list / 50 + 1 + pair / 50 + steps));
  REQUIRE(seconds(on_nodes(2, 2), "doubling") ==
          Approx(1 + card / 100 + 1 + 2 * card / 25 + 0.1 + 8 / 1000.0 + 1 + 8 / 25.0 + 0.1 + list / 1000 + 1 + pair / 25 + steps));
}

TEST_CASE("predicted bytes are those that are sent", "[sums]") {
  constexpr std::int64_t count = 40000;
  const auto compare = [&](const std::string& machine, double least, double most) {
    const Problem places = make_problem(Topology(synthetic_machine(machine), 0), 0, 0);
    for (const std::int64_t each : {400, 4000}) {
      for (const sums::SumRow* row : sums::sum_registry()) {
        if (!has_place(*row, Topology(synthetic_machine(machine), 0))) continue;
        sums::SumProblem problem = doubles(places.ranks, count, each);
        if (row->needs != sums::Shown::nothing) problem.per_node = places.largest_node;
        if (!can_make(*row, problem)) continue;
        const SentBytes sent = sent_bytes(machine, row->name, count, each);
        const model::StepCost cost = cost_of_sum(*row, model::Setting(builtin_machine(), places), problem);
        CAPTURE(machine, each, row->name, sent.in_node, sent.across, cost.bytes_in_node, cost.bytes_across);
        // A hash gives some ranks more than their share of so few stripes.
        const bool hashed = row->name == "hash" || row->name == "blocks";
        const double low = hashed ? std::min(least, 0.9) : least;
        REQUIRE(cost.bytes_across >= low * sent.across);
        REQUIRE(cost.bytes_across <= most * sent.across);
        if (most > 1.02) continue;
        REQUIRE(cost.bytes_in_node >= low * sent.in_node);
        REQUIRE(cost.bytes_in_node <= most * sent.in_node);
      }
    }
  };
  for (const char* machine : {"node:2 rank:1", "node:8 rank:1", "node:4 rank:2", "rank:4"}) compare(machine, 0.98, 1.02);
  for (const char* machine : {"node:5 rank:1", "node:3 rank:3"}) compare(machine, 0.98, 4);  // upper bounds
  compare("nodes:3,1,2", 0.75, 4);                                                           // as if all nodes were like the first
}

TEST_CASE("two ranks gather a few entries", "[sums]") {
  for (const auto& places : {on_nodes(1, 2), on_nodes(2, 1)}) {
    for (const std::int64_t each : {1, 400, 4000}) REQUIRE(chosen(places, 4000000, each) == "gather");
  }
}

TEST_CASE("a sum costs more on fewer network cards", "[sums]") {
  for (const sums::SumRow* row : sums::sum_registry()) {
    if (row->needs != sums::Shown::nothing) continue;
    const auto seconds = [&](const Problem& places) {
      return row->cost(model::Setting(builtin_machine(), places), doubles(places.ranks, 1 << 22, 40000)).seconds;
    };
    CAPTURE(row->name);
    REQUIRE(seconds(on_nodes(4, 2)) > 0);
    REQUIRE(seconds(on_nodes(4, 8)) > seconds(on_nodes(4, 2)));
  }
}

TEST_CASE("every row has a cost for any numbers", "[sums]") {
  for (const int nodes : {1, 2, 3, 5, 7, 33}) {
    for (const int per_node : {1, 2, 3, 8}) {
      if (nodes * per_node == 1) continue;
      const Problem places = on_nodes(nodes, per_node);
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}, std::int64_t{1} << 40}) {
        for (const std::int64_t each : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}}) {
          for (const sums::SumRow* row : sums::sum_registry()) {
            for (const bool scatters : {false, true}) {
              sums::SumProblem problem = doubles(places.ranks, count, std::min(each, count));
              problem.scatters = scatters;
              problem.per_node = per_node;
              if (row->needs == sums::Shown::nodes && !can_make(*row, problem)) continue;
              const model::StepCost cost = row->cost(model::Setting(builtin_machine(), places), problem);
              CAPTURE(row->name, nodes, per_node, count, each, scatters);
              REQUIRE((std::isfinite(cost.seconds) && cost.seconds > 0));
              REQUIRE((cost.bytes_in_node >= 0 && cost.bytes_across >= 0));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("remembered choices depend on the problem alone, and are nearly the cheapest", "[sums]") {
  const Machine machine = builtin_machine();
  Dice dice(5);
  for (const auto& places : {on_nodes(1, 2), on_nodes(1, 7), on_nodes(3, 4)}) {
    sums::SumChoices many;
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t count = 1 << 20, largest = dice.between(0, 1ll << dice.between(0, 20));
      sums::SumProblem problem = doubles(places.ranks, count, largest);
      problem.total = dice.between(largest, places.ranks * largest);
      problem.largest_blocks = dice.between(-1, std::min(largest, count / sums::block_elements));
      problem.blocks = problem.largest_blocks < 0 ? -1 : std::min(problem.total, places.ranks * problem.largest_blocks);
      problem.scatters = dice.between(0, 1) == 1;
      problem.per_node = dice.between(0, 1) == 1 ? places.largest_node : 0;
      const auto [chosen, across] = many.choose(machine, places, problem);
      const sums::SumRow& row = *chosen;
      sums::SumChoices one;
      const auto [alone, across_alone] = one.choose(machine, places, problem);
      REQUIRE(&row == alone);
      REQUIRE(across == across_alone);
      REQUIRE((across != nullptr) == has_nodes(problem));
      REQUIRE(can_make(row, problem));
      const model::Setting setting(machine, places);
      const double least = choose_sum(setting, problem).cost(setting, problem).seconds;
      CAPTURE(row.name, choose_sum(setting, problem).name, problem.ranks, problem.total, problem.largest, problem.blocks);
      REQUIRE(row.cost(setting, problem).seconds <= 1.15 * least);
    }
  }
}

}  // namespace weir::test
