// Cost functions against figures computed by hand, and the choice by cost.
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/oktopk_cost.hpp"
#include "model/choose.hpp"
#include "model/exchange_cost.hpp"
#include "model/steps.hpp"
#include "support/catch.hpp"
#include "support/slow_machine.hpp"

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;
#endif

namespace weir::test {
namespace {

/// Returns a problem of 4 ranks, 6400 bytes, and 80 entries of 8 bytes.
Problem small_problem(int nodes) {
  return {.count = 1600,
          .k = 80,
          .format = WireFormat::coo,
          .ranks = 4,
          .nodes = nodes,
          .smallest_node = 4 / nodes,
          .largest_node = 4 / nodes,
          .shared_memory = false};
}

Problem large_problem(double density, int nodes, int per_node) {
  Problem problem{.count = 4194304, .ranks = nodes * per_node, .nodes = nodes, .smallest_node = per_node, .largest_node = per_node};
  problem.k = static_cast<std::int64_t>(density * 4194304);
  return problem;
}

Machine gigabit_machine() {
  Machine machine = builtin_machine();
  machine.links[static_cast<std::size_t>(Level::system)] = Link{10e-6, 5e-6, 119e6, 65e6, 119e6};
  return machine;
}

constexpr double check = 6400 / 4800.0;    // adding moves 3 x 1600 bytes/s, and the check reads each once
constexpr double few = 1500 / 320.0;       // of selecting any number of entries
constexpr double distinct_4 = 0.18549375;  // 1 - 0.95^4: share of positions that 4 ranks of density 0.05 hit

}  // namespace

TEST_CASE(
    "two ranks that exchange: inside a node they share what was measured of such ranks, across nodes a card in one direction") {
  const Link link{.latency = 1, .bandwidth = 100, .exchange = 40, .shared = 80};
  REQUIRE(model::transfer_inside(link, 400, 2, true) == Approx(1 + 400 / 40.0));
  REQUIRE(model::transfer_inside(link, 400, 4, true) == Approx(1 + 400 / 20.0));
  REQUIRE(model::transfer_inside(link, 400, 1, false) == Approx(1 + 400 / 80.0));
  REQUIRE(model::transfer_across(link, 400, 1, true) == Approx(1 + 400 / (80 * 0.4)));
  REQUIRE(model::transfer_across(link, 400, 2, false) == Approx(1 + 400 / 40.0));
}

TEST_CASE("costs of four nodes with one rank each, by hand") {
  const Machine machine = slow_machine();
  const Problem problem = small_problem(4);
  const auto seconds = [&](CostFunction cost) { return cost(machine, problem).seconds(); };
  const double agreement = 2 * (1 + 8 / 50.0);
  const double ring = 6 * (1 + 1600 / 100.0) + 3 * 1600 / 1600.0;
  REQUIRE(seconds(dense_ring_row.cost) == Approx(check + agreement + ring));
  REQUIRE(seconds(dense_torus2d_row.cost) == Approx(check + agreement + ring));
  REQUIRE(seconds(dense_mpi_row.cost) == Approx(check + 2 * (agreement + ring)));
  REQUIRE(seconds(dense_nccl_row.cost) == Approx(check + 2 * agreement + ring));
  REQUIRE(seconds(dense_rabenseifner_row.cost) == Approx(check + agreement + 2 * (1 + 1600 / 50.0) + 2 * (1 + 3200 / 50.0) + 3));

  const double select = 1.25 + few, fill = 1;
  const double gather = (1 + .16) + (1 + 32 / 50.0) + (1 + 6.4) + (1 + 1280 / 50.0) + 1 + 3 + (320 + 312) / 80.0;
  const double scatter = 1600 * distinct_4 / 80;
  REQUIRE(seconds(topk_allgather_row.cost) == Approx(select + gather + fill + scatter));
  REQUIRE(seconds(gaussiank_row.cost) == Approx(1 + 4 + few + gather + fill + scatter));
  REQUIRE(seconds(hitopk_row.cost) == Approx(select + gather + fill + 2 * scatter));

  const double split = 2 * (1 + 40 / 50.0) + (1 + 2 * .25 + .24) + (1 + 2 * .25 + 9.6) + 1 + .75 + (80 + 78) / 80.0;
  const double sizes = (1 + .12) + (1 + 24 / 50.0);
  const double reduced = 400 * distinct_4;
  REQUIRE(seconds(topk_dsa_row.cost) ==
          Approx(select + split + sizes + (1 + reduced * 8 / 100) + (1 + reduced * 16 / 50) + reduced / 80 + fill + 2 * scatter));
  const double histogram = 2 * (1 + 520 / 50.0), cards = (1 + 1.4) + (1 + 280 / 50.0);  // sizes, and 32 values in doubt
  const double oktopk = split + histogram + cards + (1 + 1.6) + (1 + 320 / 50.0) + reduced / 320 + .25;
  REQUIRE(seconds(oktopk_row.cost) == Approx(select + oktopk + fill + 2));
  REQUIRE(seconds(hi_oktopk_row.cost) == Approx(select + oktopk + fill + 2));
  REQUIRE(seconds(gtopk_row.cost) == Approx(select + 4 * (1 + .16) + 4 * (1 + 6.4) + 2 * (1 + 1 + 2 + .5) + fill + 2));
}

TEST_CASE("costs of two nodes with two ranks each, by hand") {
  const Machine machine = slow_machine();
  const Problem problem = small_problem(2);
  const auto seconds = [&](CostFunction cost) { return cost(machine, problem).seconds(); };
  const double agreement = (.1 + .008) + (1 + 8 / 25.0);  // the far step: two ranks a node, in both directions
  const double ring = 6 * (1 + 1600 / 100.0) + 3;
  REQUIRE(seconds(dense_ring_row.cost) == Approx(check + agreement + ring));
  REQUIRE(seconds(dense_mpi_row.cost) == Approx(check + 2 * (agreement + ring)));
  REQUIRE(seconds(dense_nccl_row.cost) == Approx(check + 2 * agreement + ring));
  REQUIRE(seconds(dense_rabenseifner_row.cost) == Approx(check + agreement + 2 * (.1 + 1.6) + 2 * (1 + 3200 / 25.0) + 3));
  const double node_sum = .1 + 3.2 + 3200 / 1600.0;
  REQUIRE(seconds(dense_torus2d_row.cost) == Approx(check + agreement + node_sum + 2 * (1 + 1600 / 25.0) + 1 + .1 + 3.2));

  const double select = 1.25 + few, fill = 1;
  const double gather = (1 + .16) + (1 + 32 / 25.0) + (1 + 6.4) + (1 + 1280 / 25.0) + 1 + 3 + (320 + 312) / 80.0;
  const double scatter = 1600 * distinct_4 / 80;
  REQUIRE(seconds(topk_allgather_row.cost) == Approx(select + gather + fill + scatter));
  REQUIRE(seconds(gaussiank_row.cost) == Approx(1 + 4 + few + gather + fill + scatter));

  const double split = (.1 + .04) + (1 + 40 / 25.0) + (1 + 2 * .25 + .32) + (1 + 2 * .25 + 12.8) + 1 + .75 + (80 + 78) / 80.0;
  const double sizes = (1 + .12) + (1 + 24 / 25.0);
  const double reduced = 400 * distinct_4;
  REQUIRE(seconds(topk_dsa_row.cost) ==
          Approx(select + split + sizes + (1 + reduced * 8 / 100) + (1 + reduced * 16 / 25) + reduced / 80 + fill + 2 * scatter));
  const double histogram = (.1 + .52) + (1 + 520 / 25.0), cards = (1 + 1.4) + (1 + 280 / 25.0);
  REQUIRE(seconds(oktopk_row.cost) ==
          Approx(select + split + histogram + cards + (1 + 1.6) + (1 + 320 / 25.0) + reduced / 320 + .25 + fill + 2));
  REQUIRE(seconds(gtopk_row.cost) ==
          Approx(select + 2 * (.1 + .016 + .1 + .64) + 2 * (1 + .16 + 1 + 6.4) + 2 * (1 + 1 + 2 + .5) + fill + 2));

  const double shard_gather = (1 + 16 / 25.0) + (1 + 320 / 25.0) + .5 + .5 + 1;
  REQUIRE(seconds(hitopk_row.cost) == Approx(node_sum + .625 + few + shard_gather + (.1 + .624) + fill + 2 * 156 / 80.0));
  const double shard_split = (1 + 24 / 25.0) + (1 + 4 / 25.0) + (1 + 160 / 25.0) + .5 + .25 + .5;
  const double shard_oktopk = shard_split + (1 + 520 / 25.0) + (1 + 268 / 25.0) + (1 + 160 / 25.0) + 39 / 320.0 + .25;
  REQUIRE(seconds(hi_oktopk_row.cost) == Approx(node_sum + .625 + few + shard_oktopk + (.1 + .32) + fill + 2));
}

TEST_CASE("costs of two switches with two nodes each, by hand") {
  Machine machine = slow_machine();
  machine.links[static_cast<std::size_t>(Level::switch_group)] = Link{.5, 0, 200, 100, 200};
  Problem problem = small_problem(4);
  problem.switches = problem.smallest_switch = problem.largest_switch = 2;
  const double group_split = (.5 + .24) + (.5 + .04) + (.5 + 3.2) + 1 + .5 + 1;
  const double group = group_split + (.5 + 5.2) + (.5 + 2.68) + (.5 + 3.2) + 78 / 320.0 + .5 + 1;
  const double part_split = (1 + 24 / 50.0) + (1 + 4 / 50.0) + (1 + 3.2) + .5 + .25 + .5;
  const double part = part_split + (1 + 520 / 50.0) + (1 + 268 / 50.0) + (1 + 3.2) + 39 / 320.0 + .25 + .5;
  const double announce = 1 + 56 / 50.0, gather = .5 + (.5 + .24) + (.5 + 3.2);
  REQUIRE(hi_oktopk_row.cost(machine, problem).seconds() == Approx(1.25 + few + group + announce + part + gather + 1 + 2));
  // Other algorithms do not use switches.
  REQUIRE(oktopk_row.cost(machine, problem).seconds() == Approx(oktopk_row.cost(machine, small_problem(4)).seconds()));

  problem = small_problem(4);  // three nodes on one switch, one on the other: one part
  problem.switches = 2;
  problem.largest_switch = 3;
  const Cost uneven = hi_oktopk_row.cost(machine, problem);
  const double whole_split = (1 + 24 / 50.0) + (1 + 4 / 50.0) + (1 + 6.4) + 1 + .5 + 1;
  const double whole = whole_split + (1 + 520 / 50.0) + (1 + 268 / 50.0) + (1 + 6.4) + 78 / 320.0 + .5 + 1;
  const Problem three{.count = 1600, .k = 80, .format = WireFormat::coo, .ranks = 3, .nodes = 3, .across = Level::switch_group};
  const double of_three = hi_oktopk_row.cost(machine, three).exchange + 1;
  const double back = 1 + 2 * (.5 + .12) + 2 * (.5 + 640 / 3.0 / 200);
  REQUIRE(uneven.exchange == Approx(of_three + (1 + 48 / 50.0) + whole + back));
}

TEST_CASE("costs of three nodes, no power of two, by hand") {
  Problem problem = small_problem(4);
  problem.ranks = problem.nodes = 3;
  const double agreement = (1 + 8 / 50.0) + 2 * (1 + 8 / 100.0);
  const double fold = (1 + 3200 / 50.0) + (1 + 3200 / 100.0) + 2;
  const double halving = 2 * (1 + 3200 / 50.0) + 2;
  REQUIRE(dense_rabenseifner_row.cost(slow_machine(), problem).seconds() ==
          Approx(check + agreement + fold + halving + (1 + 6400 / 100.0)));
  const double gather = 2 * (1 + .16) + 2 * (1 + 6.4) + 1 + 2 + (240 + 234) / 80.0;
  const double scatter = 1600 * (1 - .95 * .95 * .95) / 80;
  REQUIRE(topk_allgather_row.cost(slow_machine(), problem).seconds() == Approx(1.25 + few + gather + 1 + scatter));
}

TEST_CASE("bytes and stages of a cost") {
  const Cost ring = dense_ring_row.cost(slow_machine(), small_problem(2));
  REQUIRE(ring.bytes_across == Approx(9600 + 8));
  REQUIRE(ring.bytes_in_node == Approx(9600 + 8));
  REQUIRE(ring.in_node == 0);
  const Cost torus = dense_torus2d_row.cost(slow_machine(), small_problem(2));
  REQUIRE(torus.bytes_across == Approx(3200 + 8));
  REQUIRE(torus.bytes_in_node == Approx(6400 + 8));
  Problem shared = small_problem(2);
  shared.shared_memory = true;
  // Bytes moved in memory, and half of those in caches, at three times the bytes of adding. The meetings take a latency each.
  const double reduced = (6400 + 3200 + (3200 + 3200) / 2.0) / 4800, gathered = (3200 + (3200 + 3200) / 2.0) / 4800;
  REQUIRE(dense_torus2d_row.cost(slow_machine(), shared).in_node == Approx(2 * .1 + reduced + gathered));
  REQUIRE(dense_torus2d_row.cost(slow_machine(), shared).bytes_in_node == Approx(8));
  shared = small_problem(1);
  shared.shared_memory = true;
  const Cost in_memory = dense_torus2d_row.cost(slow_machine(), shared);
  REQUIRE(in_memory.seconds() == Approx(check + 2 * .1 + (2 * 6400 + (4800 + 4800 + 1600 + 4800) / 2.0) / 4800));
  REQUIRE(in_memory.bytes_in_node + in_memory.bytes_across == 0);
  Problem one_node = small_problem(1);
  const Cost inside = oktopk_row.cost(slow_machine(), one_node);
  REQUIRE(inside.exchange == 0);
  REQUIRE(inside.bytes_across == 0);
  REQUIRE(inside.in_node > 0);
  one_node.ranks = one_node.smallest_node = one_node.largest_node = 1;
  for (const AllreduceRow& row : allreduce_registry()) {
    CAPTURE(row.name);
    const Cost alone = row.cost(slow_machine(), one_node);
    REQUIRE(alone.bytes_across + alone.bytes_in_node == 0);
  }
}

TEST_CASE("costs grow with the gradient, the density and the ranks' number, and stay finite") {
  const Machine& machine = builtin_machine();
  for (const AllreduceRow& row : allreduce_registry()) {
    for (const auto& [nodes, per_node] : {std::pair{1, 3}, {2, 1}, {3, 1}, {2, 2}, {3, 5}, {8, 4}, {64, 8}}) {
      CAPTURE(row.name, nodes, per_node);
      Problem problem{.ranks = nodes * per_node, .nodes = nodes, .smallest_node = per_node, .largest_node = per_node};
      double last = row.cost(machine, problem).seconds();
      REQUIRE(last >= 0);
      for (std::int64_t count = 1; count < 100'000'000; count *= 7) {
        problem.count = count;
        problem.k = (count + 99) / 100;
        const double seconds = row.cost(machine, problem).seconds();
        REQUIRE(seconds > last);
        last = seconds;
      }
      problem.count = 1'000'000;
      last = 0;
      for (std::int64_t k = 0; k <= problem.count; k += 50'000) {
        problem.k = k;
        const double seconds = row.cost(machine, problem).seconds();
        REQUIRE(seconds >= last * (1 - 1e-12));
        last = seconds;
      }
      const Cost small = row.cost(machine, {.count = 1000, .k = 10, .ranks = 2, .nodes = 2});
      REQUIRE(last > small.seconds());
    }
  }
}

TEST_CASE("message sizes are the codec's, made continuous") {
  for (const double range : {1.0, 100.0, 1e5, 1e9}) {
    for (double entries = 1; entries <= range; entries *= 3) {
      for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
        const std::int64_t exact =
            wire::message_bytes<float>({format, WireValues::native}, std::llround(entries), static_cast<std::uint64_t>(range));
        REQUIRE(std::abs(model::message_bytes({.format = format}, entries, range) - static_cast<double>(exact)) <= 8);
      }
    }
  }
}

TEST_CASE("a message takes the smallest format") {
  Problem problem{.format = WireFormat::coo};
  REQUIRE(model::message_bytes(problem, 100, 1e6) == 800);
  REQUIRE(model::message_bytes(problem, 0, 1e6) == 0);
  problem.values = WireValues::bfloat16;
  REQUIRE(model::message_bytes(problem, 100, 1e6) == 600);
  problem = {};
  const auto bytes = [&](double entries, double range) { return model::message_bytes(problem, entries, range); };
  REQUIRE(bytes(1000, 1000) == 4000);                           // dense
  REQUIRE(bytes(1000, 2000) == 4000 + 250);                     // bitmap
  REQUIRE(bytes(1000, 16000) == Approx(4000 + 500 + 250));      // Elias-Fano, 4 low bits
  REQUIRE(bytes(1000, 256000) == Approx(4000 + 1000 + 250));    // 8
  REQUIRE(bytes(1000, 4096000) == Approx(4000 + 1500 + 250));   // 12
  REQUIRE(bytes(1000, 65536000) == Approx(4000 + 2000 + 250));  // 16
  REQUIRE(bytes(2, 1e12) == 16);                                // COO
}

TEST_CASE("the choice is the cheapest, and ties are broken by the table") {
  const Machine machine = gigabit_machine();
  REQUIRE_FALSE(choose(machine, large_problem(0.5, 4, 1)).front().sparse);
  REQUIRE_FALSE(choose(builtin_machine(), large_problem(0.5, 4, 1)).front().sparse);
  REQUIRE(choose(machine, large_problem(0.01, 4, 1)).front().sparse);
  REQUIRE(choose(machine, large_problem(0.01, 4, 1)).front().algorithm == "oktopk");

  const std::vector<Candidate> all = choose(machine, large_problem(0.01, 4, 2));
  REQUIRE(all.size() == 5 + 2 * 7);
  for (std::size_t i = 1; i < all.size(); ++i) REQUIRE(all[i - 1].cost.seconds() <= all[i].cost.seconds());
  REQUIRE(all.front().format == WireFormat::compact);
  REQUIRE(choose(machine, large_problem(0.01, 4, 2), {.values = WireValues::bfloat16}).front().values == WireValues::bfloat16);
  Problem wide = large_problem(0.01, 4, 2);
  wide.value_bytes = 8;
  for (const Candidate& candidate : choose(machine, wide, {.values = WireValues::bfloat16}))
    REQUIRE(candidate.values == WireValues::native);

  // With one rank a node, the hierarchical algorithms are the flat ones: the earlier row wins.
  const std::vector<Candidate> tied = choose(machine, large_problem(0.01, 4, 1), {.algorithms = {"hi_oktopk", "oktopk"}});
  REQUIRE(tied.size() == 4);
  REQUIRE(tied[0].algorithm == "oktopk");
  REQUIRE(tied[1].algorithm == "hi_oktopk");
  REQUIRE(tied[0].cost.seconds() == tied[1].cost.seconds());
  REQUIRE_THROWS_WITH(choose(machine, wide, {.algorithms = {"quick"}}),
                      ContainsSubstring("no allreduce algorithm 'quick': known are dense_ring, "));
}

TEST_CASE("a bound on the error pays off between nodes of a slow network, and not within a node") {
  const Allowed allowed{.compressors = compress::make_compressors("error_bounded|none", "")};
  const auto chosen = [&](const Machine& machine, int nodes, int ranks_per_node) {
    return choose(machine, large_problem(0.01, nodes, ranks_per_node), allowed).front().compressor_name(allowed);
  };
  CHECK(chosen(gigabit_machine(), 4, 1) == "error_bounded");
  CHECK(chosen(gigabit_machine(), 4, 2) == "error_bounded");
  CHECK(chosen(gigabit_machine(), 1, 4) == "none");
  CHECK(chosen(builtin_machine(), 1, 4) == "none");
}

TEST_CASE("the schedule of oktopk: one round for few entries of few ranks, phases for many ranks, else directly") {
  const auto choose = [](int ranks, std::int64_t k, const ScheduleRequest& request = {}, WireValues values = WireValues::native) {
    Problem problem{.values = values};
    problem.count = 4194304;
    problem.k = k;
    problem.ranks = problem.nodes = ranks;
    return choose_schedule(gigabit_machine(), problem, request, OkTopkExchange::whole);
  };
  for (const int ranks : {2, 3, 5, 33, 256}) {
    REQUIRE(choose(ranks, 4).schedule == ExchangeSchedule::one_round);
    REQUIRE(choose(ranks, 400000).schedule == ExchangeSchedule::direct);
    REQUIRE(choose(ranks, 4, {.any = false}).schedule == ExchangeSchedule::direct);
    REQUIRE(choose(ranks, 4, {}, WireValues::bfloat16).schedule == ExchangeSchedule::direct);
  }
  REQUIRE(choose(1, 4).schedule == ExchangeSchedule::direct);
  for (const int ranks : {64, 256, 1024}) {
    REQUIRE(choose(ranks, 1000).schedule == ExchangeSchedule::phased);
    REQUIRE(choose(ranks, 1000, {.radix = 16}) == ScheduleChoice{.schedule = ExchangeSchedule::phased, .radix = 16});
  }
  // The buffers of phases are bounded unless phases are requested; ranks beyond a power of two need more.
  REQUIRE(choose(1024, 4000).schedule == ExchangeSchedule::phased);
  REQUIRE(choose(1023, 4000).schedule == ExchangeSchedule::direct);
  REQUIRE(choose(1024, 5000).schedule == ExchangeSchedule::direct);
  for (const ExchangeSchedule schedule : {ExchangeSchedule::direct, ExchangeSchedule::phased, ExchangeSchedule::one_round})
    REQUIRE(choose(8, 400000, {.schedule = schedule}).schedule == schedule);
}

TEST_CASE("alltoallv directly and by node, by hand") {
  const Machine machine = slow_machine();
  const auto even = [](int nodes, int per_node) {
    return Problem{.ranks = nodes * per_node, .nodes = nodes, .smallest_node = per_node, .largest_node = per_node};
  };
  const Problem two = even(2, 2), three = even(3, 2), five = even(5, 2), uneven{.ranks = 4, .nodes = 2, .largest_node = 3};
  const auto direct = [&](const Problem& problem) { return model::direct_alltoallv(model::Setting(machine, problem), 100); };
  const auto by_node = [&](const Problem& problem) { return model::by_node_alltoallv(model::Setting(machine, problem), 100); };
  REQUIRE(direct(two).seconds == Approx(1 + 2 * .25 + 200 / 25.0));
  REQUIRE(direct(two).bytes_across == 200);
  // Sizes, gather, one message made, across, scatter; then the block for the neighbour.
  REQUIRE(by_node(two).seconds == Approx((.1 + .024) + (.1 + .2) + .25 + (1 + 400 / 50.0) + (.1 + .2) + (.1 + .1)));
  REQUIRE(by_node(two).bytes_across == 400);
  REQUIRE(by_node(two).bytes_in_node == 24 + 200 + 200 + 100);
  // Two gateways per node share its bandwidth. With five nodes each gateway sends twice.
  REQUIRE(by_node(three).seconds == Approx((.1 + .024) + (.1 + .2) + .25 + (1 + 400 / 25.0) + (.1 + .2) + (.1 + .1)));
  REQUIRE(by_node(five).seconds == Approx((.1 + .048) + (.1 + .4) + .5 + (1 + .25 + 800 / 25.0) + (.1 + .4) + (.1 + .1)));
  REQUIRE(by_node(uneven).seconds == Approx((.1 + 2 * .016) + (.1 + .2) + 300 / 1600.0 + (1 + 300 / 50.0) + (.1 + .2) + (.1 + .2)));
}

TEST_CASE("words among many ranks take log2 P steps, by hand") {
  const Problem problem{.count = 1600, .k = 80, .ranks = 300, .nodes = 300, .smallest_node = 1, .largest_node = 1};
  const model::Setting setting(slow_machine(), problem);
  // 9 steps, with the places among 300 that have a bit set: 1, 2, 4, 8 to 256
  const int words = 150 + 150 + 148 + 148 + 144 + 140 + 128 + 128 + 44;
  const model::StepCost many = setting.network.alltoall_control(setting.all, 4);
  REQUIRE(many.steps == 9);
  REQUIRE(many.bytes_across == 4 * words);
  const model::Group few{.ranks = 256, .per_node = 1, .concurrent = 1};
  REQUIRE(setting.network.alltoall_control(few, 4).steps == 1);
  REQUIRE(setting.network.alltoall_control(few, 4).bytes_across == 4 * 255);
}

TEST_CASE("small blocks for many ranks travel by node, large ones directly") {
  const Machine& machine = builtin_machine();
  const auto by_node = [&](const char* ranks, double bytes) {
    return by_node_is_cheaper(machine, make_problem(Topology(synthetic_machine(ranks), 0), 0, 0), bytes);
  };
  for (const char* ranks : {"node:2 rank:16", "node:8 rank:8", "node:16 rank:4", "nodes:16,12,16,3"}) {
    CAPTURE(ranks);
    REQUIRE(by_node(ranks, 8));
    REQUIRE(by_node(ranks, 256));
    REQUIRE_FALSE(by_node(ranks, 1 << 20));
    bool last = true;
    for (double bytes = 1; bytes < 1e8; bytes *= 2) {
      REQUIRE((last || !by_node(ranks, bytes)));
      last = by_node(ranks, bytes);
    }
  }
  for (const char* ranks : {"rank:1", "rank:64", "node:64 rank:1", "node:2 rank:1"}) {
    CAPTURE(ranks);
    for (double bytes = 1; bytes < 1e8; bytes *= 8) REQUIRE_FALSE(by_node(ranks, bytes));
  }
  // If a message between nodes costs no more than one inside, there is no gain.
  Machine flat = machine;
  flat.links[static_cast<std::size_t>(Level::system)] = flat.links[static_cast<std::size_t>(Level::node)];
  REQUIRE_FALSE(by_node_is_cheaper(flat, make_problem(Topology(synthetic_machine("node:2 rank:2"), 0), 0, 0), 8));
}

TEST_CASE("a problem follows from the topology") {
  const Topology uniform(synthetic_machine("switch:2 node:2 socket:2 rank:3"), 5);
  Problem problem = make_problem(uniform, 1000, 10, DataType::float64);
  REQUIRE((problem.count == 1000 && problem.k == 10 && problem.value_bytes == 8));
  REQUIRE((problem.ranks == 24 && problem.nodes == 4 && problem.smallest_node == 6 && problem.largest_node == 6));
  REQUIRE((problem.inside == Level::node && problem.across == Level::system));
  REQUIRE((problem.switches == 2 && problem.smallest_switch == 2 && problem.largest_switch == 2));
  problem = make_problem(Topology(synthetic_machine("switches:3,1,4 rank:2"), 0), 1, 1);
  REQUIRE((problem.switches == 3 && problem.smallest_switch == 1 && problem.largest_switch == 4));
  problem = make_problem(Topology(synthetic_machine("switch:4 node:1 rank:2"), 0), 1, 1);
  REQUIRE((problem.switches == 1 && problem.smallest_switch == 1 && problem.largest_switch == 1));
  problem = make_problem(Topology(synthetic_machine("nodes:3,1,2"), 0), 1, 1);
  REQUIRE((problem.nodes == 3 && problem.smallest_node == 1 && problem.largest_node == 3));
  problem = make_problem(Topology(synthetic_machine("switch:1 node:2 rank:1"), 1), 1, 1);
  REQUIRE((problem.inside == Level::node && problem.across == Level::switch_group));
  problem = make_problem(Topology(synthetic_machine("node:2 socket:1 rank:2"), 1), 1, 1);
  REQUIRE((problem.inside == Level::socket && problem.across == Level::system));
}

}  // namespace weir::test
