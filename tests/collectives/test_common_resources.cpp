// Common resources of the ranks: settings that must be equal, tags, memory that a node shares; and what happens if one rank fails.
#include <atomic>
#include <mutex>
#include <optional>

#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t count = 1000;

float value_of(int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 11) - 5; }

/// Runs the plan, of density 1, once and compares with the sum of all ranks' gradients.
void check_run(AllreducePlan& plan, const Communicator& comm, RankCheck& check) {
  std::vector<float> gradient(static_cast<std::size_t>(plan.config().count));
  const auto n = std::ssize(gradient);
  for (std::int64_t i = 0; i < n; ++i) gradient[static_cast<std::size_t>(i)] = value_of(comm.rank(), i);
  plan.run(gradient);
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += value_of(rank, i);
    check.that(gradient[static_cast<std::size_t>(i)] == sum, plan.config().algorithm + ", element " + std::to_string(i));
  }
}

AllreduceConfig everything(const std::string& algorithm, std::int64_t n = count) {
  return {.count = n, .density = 1, .algorithm = algorithm, .average = false, .name = algorithm};
}

/// Runs ranks with different settings.
void run_with_settings(int ranks, const std::function<Settings(int)>& settings, const std::function<void(Communicator&)>& body) {
  InprocJob job(ranks, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator comm(detail::make_communicator(job.transport(rank), Location{}, settings(rank)));
      body(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

const detail::Leases& leases_of(const Communicator& comm) { return comm.state()->leases; }

}  // namespace

TEST_CASE("WEIR_SHARED_MEMORY=0 on one rank switches it off on all") {
  for (const int odd_one : {0, 2}) {
    RankCheck check;
    const auto settings = [&](int rank) {
      Settings mine{.timeout_seconds = 20};
      mine.shared_memory = rank != odd_one;
      return mine;
    };
    run_with_settings(3, settings, [&](Communicator& comm) {
      for (const std::string algorithm : {"dense_torus2d", "hitopk", "hi_oktopk"}) {
        AllreducePlan plan(comm, everything(algorithm));
        check_run(plan, comm, check);
      }
      check.that(leases_of(comm).node_memory().mapped() == 0, "memory is shared");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("where shared memory cannot be had, all ranks exchange by messages, and the plan says why") {
  const InprocFault no_room{.shared_memory_room = 2000}, no_mapping{.no_segments_on = 1};
  for (const InprocFault& fault : {no_room, no_mapping}) {
    for (const std::string machine : {"", "node:2 rank:3", "nodes:3,1,2"}) {
      RankCheck check;
      run_ranks(machine.empty() ? 3 : 6,
                [&](Communicator& comm) {
                  for (const std::string algorithm : {"dense_torus2d", "hitopk", "hi_oktopk"}) {
                    AllreducePlan plan(comm, everything(algorithm));
                    check.that(plan.explanation().find("by messages, not through shared memory: ") != std::string::npos,
                               plan.explanation());
                    check_run(plan, comm, check);
                    check_run(plan, comm, check);
                  }
                },
                {.machine = machine, .fault = fault, .settings = {.timeout_seconds = 20, .log = LogLevel::error}});
      INFO(machine);
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("where the pages of a segment run out, all ranks exchange by messages, and earlier plans stay as they are") {
  RankCheck check;
  const auto run = [&](Communicator& comm) {
    AllreducePlan small(comm, everything("dense_torus2d", 10'000));
    check.that(small.explanation().find("by messages") == std::string::npos, small.explanation());
    const std::int64_t taken = leases_of(comm).node_memory().taken();
    AllreducePlan large(comm, everything("dense_torus2d", 600'000));
    check.that(large.explanation().find("there are no pages") != std::string::npos, large.explanation());
    check.that(leases_of(comm).node_memory().taken() == taken, "pages are counted that nobody has");
    AllreducePlan last(comm, everything("dense_torus2d", 5'000));
    check.that(last.explanation().find("by messages") == std::string::npos, last.explanation());
    for (AllreducePlan* const plan : {&small, &large, &last}) check_run(*plan, comm, check);
  };
  run_ranks(3, run, {.fault = {.pages_of_segment = 1 << 19}, .settings = {.timeout_seconds = 20, .log = LogLevel::error}});
  const auto just_enough = [&](Communicator& comm) {
    AllreducePlan first(comm, everything("dense_torus2d", 60'000)), second(comm, everything("dense_torus2d", 10'000));
    check.that(second.explanation().find("by messages") == std::string::npos, second.explanation());
    for (AllreducePlan* const plan : {&first, &second}) check_run(*plan, comm, check);
  };
  run_ranks(2, just_enough, {.fault = {.pages_of_segment = 300 << 10}, .settings = {.timeout_seconds = 20}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("plans share a few segments of memory, and give them back") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    std::int64_t largest = 0;
    for (std::int64_t n = 100'000; n <= 2'000'000; n += 100'000) {  // each one is gone before the next
      AllreducePlan plan(comm, {.count = n, .algorithm = "dense_torus2d"});
      largest = std::max(largest, leases_of(comm).node_memory().mapped());
    }
    check.at_most(largest, std::int64_t{3} * 2'000'000 * 4, "bytes mapped for plans that are not alive together");

    std::vector<AllreducePlan> alive;
    for (int i = 0; i < 300; ++i) alive.emplace_back(comm, everything("hi_oktopk"));
    for (AllreducePlan& plan : alive) check_run(plan, comm, check);
    // Each takes `count` floats. Every second one is destroyed, and others take its place.
    const std::int64_t mapped = leases_of(comm).node_memory().mapped();
    for (std::size_t i = 0; i < alive.size(); i += 2) alive[i] = AllreducePlan(comm, everything("dense_torus2d"));
    for (AllreducePlan& plan : alive) check_run(plan, comm, check);
    check.that(leases_of(comm).node_memory().mapped() == mapped, "gaps are not used");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("plans that end on each rank in another order never get each other's tags or memory") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              std::vector<std::optional<AllreducePlan>> plans(12);
              for (int round = 0; round < 30; ++round) {
                for (std::size_t i = 0; i < plans.size(); ++i) {
                  // All ranks destroy the same plans, but at different times.
                  const bool ends = (round + static_cast<int>(i)) % 3 == 0;
                  if (ends && (comm.rank() + round) % 2 == 0) plans[i].reset();
                }
                for (std::size_t i = 0; i < plans.size(); ++i) {
                  const bool ends = (round + static_cast<int>(i)) % 3 == 0;
                  if (!ends && plans[i]) continue;
                  plans[i].emplace(comm, everything(i % 2 == 0 ? "dense_torus2d" : "oktopk"));
                }
                for (auto& plan : plans) check_run(*plan, comm, check);
              }
              check.at_most(leases_of(comm).alive(), 24, "leases");
            },
            {.seed = 3, .machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("tags come around, and those of plans that are alive are left out") {
  RankCheck check;
  run_ranks(2,
            [&](Communicator& comm) {
              AllreducePlan old(comm, everything("oktopk"));
              for (int i = 0; i < 200; ++i) {
                AllreducePlan plan(comm, everything("oktopk"));
                check.that(plan.state()->run.tag != old.state()->run.tag, "one tag for two");
                check_run(plan, comm, check);
              }
              check_run(old, comm, check);
            },
            {.fault = {.max_tag = 16}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("more plans alive than there are tags is an error on every rank, and no longer once some have ended") {
  SameErrors errors(3);
  run_ranks(3,
            [&](Communicator& comm) {
              std::vector<AllreducePlan> plans;
              for (int i = 0; i < 4; ++i) plans.emplace_back(comm, everything("oktopk"));
              errors.expect(comm.rank(), WEIR_ERR_STATE, "4 plans and tables are alive",
                            [&] { AllreducePlan(comm, everything("oktopk")); });
              plans.pop_back();
              // The next attempt announces which plans have ended, but is refused before it learns that itself.
              try {
                plans.emplace_back(comm, everything("oktopk"));
              } catch (const Error&) {
                plans.emplace_back(comm, everything("oktopk"));
              }
              for (AllreducePlan& plan : plans) check_run(plan, comm, errors.check());
            },
            {.fault = {.max_tag = 19}});
  REQUIRE(errors.failure() == "");
}

TEST_CASE("a communicator that one rank refuses is an error on every rank") {
  SameErrors errors(3);
  InprocJob job(3, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      errors.expect(rank, WEIR_ERR_ARGUMENT, "rank 2: the address is NULL", [&] {
        static_cast<void>(detail::make_communicator(job.transport(rank), Location{}, Settings{.timeout_seconds = 20},
                                                    rank == 2 ? "the address is NULL" : nullptr));
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(errors.failure() == "");
}

}  // namespace weir::test
