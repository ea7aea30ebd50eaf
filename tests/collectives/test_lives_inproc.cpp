// Long lives on virtual ranks: what the process holds does not depend on how many plans and tables there were before. Counted, not
// timed.
#include <functional>
#include <optional>
#include <semaphore>
#include <thread>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/lives.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 2;

/// `live` so many times on every rank; what all ranks hold together must not grow.
void check_lives(int count, bool shared_memory, const std::function<bool(const Communicator&, int)>& live) {
  constexpr int warm_up = 1200;
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

/// A thread that waits for what another has started.
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
  for (const bool shared_memory : {false, true}) check_lives(20000, shared_memory, live_and_die);
}

TEST_CASE("tables made and destroyed on virtual ranks", "[lives]") {
  for (const bool shared_memory : {false, true}) check_lives(5000, shared_memory, table_lives_and_dies);
}

TEST_CASE("runs that one thread starts and another waits for", "[lives]") {
  std::vector<std::optional<Waiter>> waiters(ranks);
  std::vector<std::optional<AllreducePlan>> plans(ranks);
  check_lives(5000, true, [&](const Communicator& comm, int i) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    if (i == 0) {
      waiters[rank].emplace();
      plans[rank].emplace(comm, AllreduceConfig{.count = 10, .density = 1, .average = false});
    }
    std::vector<float> ones(10, 1);
    waiters[rank]->wait(plans[rank]->start(std::span<float>(ones)));
    if (i == 1200 + 5000 - 1) plans[rank].reset();
    return ones == std::vector<float>(10, ranks);
  });
}

}  // namespace weir::test
