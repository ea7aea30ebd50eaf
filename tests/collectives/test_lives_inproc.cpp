// Long lives on virtual ranks: the resources of the process do not depend on the number of earlier plans and tables. The test
// counts resources and measures no times.
#include <functional>
#include <optional>
#include <semaphore>
#include <thread>

#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/lives.hpp"
#include "support/rank_check.hpp"
#include "support/small_plans.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 2, warm_up = 1200;

/// Calls `live` `count` times on every rank. The resources of all ranks together must not grow.
void check_lives(int count, bool shared_memory, const std::function<bool(const Communicator&, int)>& live) {
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              Holdings before;
              for (int i = 0; i < warm_up + count; ++i) {
                if (i == warm_up) before = Holdings::now();
                check.that(live(comm, i), "result " + std::to_string(i));
              }
              const std::string grown = growth(before, Holdings::now());
              check.that(grown.empty(), grown);
            },
            {.settings = {.timeout_seconds = 120, .shared_memory = shared_memory}});
  INFO("shared memory " << shared_memory);
  REQUIRE(check.failure() == "");
}

/// A thread that waits for operations that another thread has started.
class Waiter {
 public:
  Waiter() : thread_([this] { work(); }) {}
  ~Waiter() {
    operation_.reset();
    given_.release();
    thread_.join();
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void wait(Operation operation) {
    operation_.emplace(std::move(operation));
    given_.release();
    done_.acquire();
  }

 private:
  void work() {
    for (given_.acquire(); operation_; given_.acquire()) {
      operation_->wait();
      operation_.reset();
      done_.release();
    }
  }

  std::optional<Operation> operation_;
  std::binary_semaphore given_{0}, done_{0};
  std::thread thread_;
};

}  // namespace

TEST_CASE("plans made and destroyed on virtual ranks", "[lives]") {
  for (const bool shared_memory : {false, true}) check_lives(lives(20000), shared_memory, live_and_die);
}

TEST_CASE("tables made and destroyed on virtual ranks", "[lives]") {
  for (const bool shared_memory : {false, true}) check_lives(lives(5000), shared_memory, table_lives_and_dies);
}

TEST_CASE("plans that run often on virtual ranks", "[lives]") {
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    SmallPlans plans(comm);
    const int part = plans.round();
    std::int64_t allocations = 0;
    const auto work_of = [&](int runs) {
      const SmallPlans::Work before = plans.work();
      allocations = -allocations_of_this_thread();
      bool right = true;
      for (int i = 0; i < runs; ++i) right = plans.run() && right;
      allocations += allocations_of_this_thread();
      check.that(right, "nothing was delivered");
      return plans.work() - before;
    };
    work_of(8 * part);  // messages of topk_dsa rise until then
    SmallPlans::Work early = work_of(part);
    for (int i = 0; i < 3 && test_every() > 1; ++i) {  // a shorter life ends at a part that sends 0.2 % more
      const SmallPlans::Work again = work_of(part);
      early.messages = std::max(early.messages, again.messages);
      early.control_bytes = std::max(early.control_bytes, again.control_bytes);
      early.payload_bytes = std::max(early.payload_bytes, again.payload_bytes);
    }
    const Holdings before = Holdings::now();
    work_of(std::max(1, lives(100000) / part) * part);
    check.at_most(allocations, std::int64_t{0}, "allocations");
    const std::string grown = growth(before, Holdings::now());
    const SmallPlans::Work later = work_of(part);
    check.that(grown.empty(), grown);
    check.at_most(later.messages, early.messages, "messages");
    check.at_most(later.control_bytes, early.control_bytes, "control bytes");
    check.at_most(later.payload_bytes, early.payload_bytes + early.payload_bytes / 10, "payload bytes");
    check.that(plans.lost() == 0, "lost " + std::to_string(plans.lost()));
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("plans alive at once on virtual ranks", "[lives]") {
  const int count = lives(5000);
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    Holdings after;
    for (const bool first : {true, false}) {
      {
        std::vector<AllreducePlan> plans;
        for (int i = 0; i < count; ++i) {
          plans.emplace_back(comm, config_of_life(i));
          check.that(runs_right(plans.back(), ranks), "result of a new plan");
        }
        for (AllreducePlan& plan : plans) check.that(runs_right(plan, ranks), "result beside others");
      }
      check.that(all_leases_returned(comm, count), "leases are not returned");
      if (first) after = Holdings::now();
    }
    const std::string grown = growth(after, Holdings::now());  // their resources are reused
    check.that(grown.empty(), grown);
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("communicators made and destroyed on virtual ranks", "[lives]") {
  RankCheck check;
  Holdings before;
  for (int i = 0; i < 240; ++i) {
    if (i == 40) before = Holdings::now();
    run_ranks(ranks, [&](Communicator& comm) { check.that(live_and_die(comm, i), "result " + std::to_string(i)); });
  }
  REQUIRE(check.failure() == "");
  CHECK(growth(before, Holdings::now()) == "");
}

TEST_CASE("runs that one thread starts and another waits for", "[lives]") {
  std::vector<std::optional<Waiter>> waiters(ranks);
  std::vector<std::optional<AllreducePlan>> plans(ranks);
  const int count = lives(5000);
  check_lives(count, true, [&](const Communicator& comm, int i) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    if (i == 0) {
      waiters[rank].emplace();
      plans[rank].emplace(comm, AllreduceConfig{.count = 10, .density = 1, .average = false});
    }
    std::vector<float> ones(10, 1);
    waiters[rank]->wait(plans[rank]->start(std::span<float>(ones)));
    if (i == warm_up + count - 1) plans[rank].reset();
    return ones == std::vector<float>(10, ranks);
  });
}

}  // namespace weir::test
