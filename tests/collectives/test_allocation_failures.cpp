// Memory runs out on one rank, at every allocation in making a plan and in its runs. Every rank gets the right result or the same
// error, and the communicator still works.
#include <barrier>
#include <memory>
#include <optional>

#include "collectives/allreduce.hpp"
#include "support/failing_calls.hpp"
#include "support/inputs.hpp"

namespace weir::test {
namespace {

using Verdict = FailingCalls::Verdict;

/// One rank, one node, one rank per node, nodes of equal and of unequal sizes; memory runs out on the first rank, or on another.
constexpr std::array machines = {FailingRank{1, "", 0},
                                 FailingRank{2, "", 1},
                                 FailingRank{3, "node:3 rank:1", 0},
                                 FailingRank{4, "node:2 rank:2", 3},
                                 FailingRank{5, "nodes:2,3", 1},
                                 FailingRank{5, "nodes:2,3", 4}};
/// Few machines, because making an automatic plan takes hundreds of allocations.
constexpr std::array few_machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{4, "node:2 rank:2", 0},
                                     FailingRank{4, "node:2 rank:2", 3}};

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (row.host_memory) names.emplace_back(row.name);
  }
  return names;
}

AllreduceConfig config_of(const std::string& algorithm) {
  AllreduceConfig config{.count = 60, .k = 7, .algorithm = algorithm, .average = false, .wire_values = WireValues::bfloat16};
  if (!find_allreduce(algorithm).sparse()) config.wire_values = WireValues::native;
  return config;
}

/// All entries are delivered and are integers, so that the result is the same for every candidate.
AllreduceConfig config_of_trials() { return {.count = 60, .k = 60, .algorithm = "auto", .trial_iterations = 1, .average = false}; }

std::vector<float> gradient(const AllreduceConfig& config, const Communicator& comm, int t) {
  return make_input<float>(Input::integers, config.count, comm.rank(), comm.size(), t);
}

/// Returns the results without failures: right[t] for run t.
std::vector<std::vector<float>> right_results(const FailingRank& machine, const AllreduceConfig& config, int runs) {
  std::vector<std::vector<float>> right(static_cast<std::size_t>(runs));
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, config);
              for (int t = 0; t < runs; ++t) {
                std::vector<float> g = gradient(config, comm, t);
                plan.run(g);
                if (comm.rank() == 0) right[static_cast<std::size_t>(t)] = g;
              }
            },
            {.machine = machine.description});
  return right;
}

/// Checks that the communicator can make a plan and run it.
void check_usable(FailingCalls& calls, const Communicator& comm, const AllreduceConfig& config, const std::vector<float>& right) {
  std::vector<float> g = gradient(config, comm, 0);
  calls.call(comm.rank(), "another plan afterwards", g, right, {Verdict::right}, [&] { AllreducePlan(comm, config).run(g); });
}

void check_making(const FailingRank& machine, const AllreduceConfig& config) {
  const auto right = right_results(machine, config, 1);
  const auto make = [&](FailingCalls& calls, const Communicator& comm) {
    std::vector<float> g = gradient(config, comm, 0);
    std::optional<AllreducePlan> plan;
    const Verdict made = calls.fail(comm.rank(), "making a plan", {}, {}, [&] { plan.emplace(comm, config); });
    if (made == Verdict::wrong) return;
    if (made == Verdict::split) return calls.note("a plan was made on some ranks only");
    if (made == Verdict::right) calls.call(comm.rank(), "its run", g, right[0], {Verdict::right}, [&] { plan->run(g); });
    check_usable(calls, comm, config, right[0]);
  };
  fail_every_allocation("making " + config.algorithm, machine.ranks, machine.victim, machine.description, make);
}

/// Lets run `failing` of a plan fail.
void check_run(const FailingRank& machine, const AllreduceConfig& config, int failing) {
  const auto right = right_results(machine, config, failing + 2);
  const auto right_of = [&](int t) { return right[static_cast<std::size_t>(t)]; };
  const auto run = [&](FailingCalls& calls, const Communicator& comm) {
    AllreducePlan plan(comm, config);
    std::vector<float> g;
    for (int t = 0; t < failing; ++t) {
      g = gradient(config, comm, t);
      plan.run(g);
    }
    g = gradient(config, comm, failing);
    std::vector<float> next_g = gradient(config, comm, failing + 1);
    const Verdict ran = calls.fail(comm.rank(), "the run", g, right_of(failing), [&] { plan.run(g); });
    if (ran == Verdict::wrong) return;
    const Verdict next = calls.call(comm.rank(), "the next run", next_g, right_of(failing + 1),
                                    {ran == Verdict::right ? Verdict::right : Verdict::refused}, [&] { plan.run(next_g); });
    if (next == Verdict::wrong) return;
    check_usable(calls, comm, config, right[0]);
  };
  fail_every_allocation("run " + std::to_string(failing) + " of " + config.algorithm, machine.ranks, machine.victim,
                        machine.description, run);
}

/// The other ranks never come, and there is no memory at the deadline. Each call ends with one of Weir's errors and leaks nothing.
void check_deadline_without_memory(Failing how) {
  RankCheck check;
  std::barrier<> together(2);
  const auto fails_alone = [&](const Communicator& comm, const std::string& what, auto&& call) {
    if (comm.rank() == 0) {
      FailingAllocations failing(1, how);
      try {
        call();
        failing.stop();
        check.that(false, what + " succeeds on one rank of two");
      } catch (const Error& error) {
        failing.stop();
        check.that(error.status() == WEIR_ERR_MEMORY || error.status() == WEIR_ERR_TIMEOUT, what + ": " + error.what());
      }
    }
    together.arrive_and_wait();
  };
  run_ranks(2,
            [&](Communicator& comm) {
              const AllreduceConfig config{.count = 100, .k = 100};
              AllreducePlan plan(comm, config), other(comm, config);
              std::vector<float> g(100, 1);
              plan.run(g);
              other.run(g);
              set_timeout(comm, 0.3);
              auto gradient = std::make_unique<std::vector<float>>(g);
              fails_alone(comm, "a run", [&] { plan.run(*gradient); });
              gradient.reset();
              fails_alone(comm, "making a plan", [&] { AllreducePlan(comm, config); });
              set_timeout(comm, 60);
              g.assign(100, 3);
              other.run(g);
              check.that(g == std::vector<float>(100, 3), "another plan's run");
            },
            {.settings = {.log = LogLevel::error}});
  REQUIRE(check.failure() == "");
}

/// Makes an `auto` plan with a machine file, whose texts need memory. Then all ranks make it again.
void check_machine_again() {
  AllreduceConfig config{.count = 100, .k = 100, .algorithm = "auto"};
  const std::vector<float> right(100, 1);
  const auto make = [&](FailingCalls& calls, const Communicator& comm) {
    std::vector<float> g(100, 1);
    const Verdict made = calls.fail(comm.rank(), "making a plan", {}, {}, [&] { AllreducePlan(comm, config); });
    if (made == Verdict::wrong || made == Verdict::split) return;
    calls.call(comm.rank(), "making it again", g, right, {Verdict::right}, [&] { AllreducePlan(comm, config).run(g); });
  };
  fail_every_allocation("auto with a machine file", 2, 1, "", make, WEIR_TEST_MACHINE);
}

}  // namespace

TEST_CASE("a deadline comes when there is no memory", "[failures]") {
  check_deadline_without_memory(Failing::once);
  check_deadline_without_memory(Failing::on);
}

TEST_CASE("memory runs out on one rank while a machine is looked up", "[failures]") { check_machine_again(); }

TEST_CASE("memory runs out while a plan is made", "[failures]") {
  for (const std::string& algorithm : algorithm_names()) {
    DYNAMIC_SECTION(algorithm) {
      for (const FailingRank& machine : machines) check_making(machine, config_of(algorithm));
    }
  }
  DYNAMIC_SECTION("auto with trials") {
    for (const FailingRank& machine : few_machines) check_making(machine, config_of_trials());
  }
}

TEST_CASE("memory runs out in an exchange by switch group", "[failures]") {
  for (const int victim : {0, 3}) {
    const FailingRank machine{4, "switches:1,3 rank:1", victim};
    check_making(machine, config_of("hi_oktopk"));
    check_run(machine, config_of("hi_oktopk"), 0);
  }
}

TEST_CASE("memory runs out in a run", "[failures]") {
  for (const std::string& algorithm : algorithm_names()) {
    DYNAMIC_SECTION(algorithm) {
      for (const FailingRank& machine : machines) check_run(machine, config_of(algorithm), 0);
    }
  }
  DYNAMIC_SECTION("auto with trials") {
    for (const FailingRank& machine : machines) {
      for (int t = 0; t < 6; ++t) check_run(machine, config_of_trials(), t);
    }
  }
}

}  // namespace weir::test
