// Progress threads (WEIR_PROGRESS_THREAD): what they do while callers compute, what they do not touch, and that results stay the
// same.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "collectives/allreduce.hpp"
#include "plan/plan.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/table_training.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t n = 3000;

Settings threaded(double timeout_seconds = 90) {
  return {.timeout_seconds = timeout_seconds, .progress_thread = ProgressThreadSetting::anywhere};
}

/// Stands for a caller that computes, or waits for something other than Weir, until `reached`. Throws if that never happens.
void stay_away_until(const std::function<bool()>& reached) {
  const auto begin = std::chrono::steady_clock::now();
  while (!reached()) {
    if (std::chrono::steady_clock::now() - begin > 60s) throw std::runtime_error("nothing has moved while the caller was away");
    std::this_thread::sleep_for(100us);
  }
}

std::vector<float> gradient_of(const Communicator& comm, int t) {
  return make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), t);
}

/// Returns what plans of every algorithm deliver in a few runs on this rank, without a progress thread.
std::vector<std::vector<float>> deliveries(const std::string& algorithm, const std::string& machine, int ranks, int rank) {
  std::vector<std::vector<float>> all;
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n, .algorithm = algorithm});
              for (int t = 0; t < 3; ++t) {
                std::vector<float> g = gradient_of(comm, t);
                plan.run(g);
                if (comm.rank() == rank) all.push_back(g);
              }
            },
            {.machine = machine});
  return all;
}

/// Returns whether the last run has ended, without making progress.
bool has_ended(const AllreducePlan& plan) {
  const auto inside = plan.state()->comm->enter();
  return plan.state()->run.finished;
}

/// Collects the messages at level warn and above.
class LogOf {
 public:
  LogOf() {
    set_log_function([this](LogLevel, std::string_view text) { text_ += std::string(text) + "\n"; });
  }
  LogOf(const LogOf&) = delete;
  LogOf& operator=(const LogOf&) = delete;
  ~LogOf() { set_log_function({}); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

TEST_CASE("a rank that computes after start keeps nobody waiting") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    const std::string algorithm(row.name), machine = "node:2 rank:2";
    const std::vector<std::vector<float>> right = deliveries(algorithm, machine, 4, 1);
    std::atomic<int> ended = 0;
    RankCheck check;
    run_ranks(4,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = n, .algorithm = algorithm});
                for (int t = 0; t < 3; ++t) {
                  std::vector<float> g = gradient_of(comm, t);
                  Operation operation = plan.start(g);
                  if (comm.rank() == 1) stay_away_until([&] { return ended == 3 * (t + 1); });
                  operation.wait();
                  if (comm.rank() != 1) ++ended;
                  check.that(comm.rank() != 1 || g == right[static_cast<std::size_t>(t)], "the update");
                }
              },
              {.machine = machine, .settings = threaded()});
    INFO(algorithm);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("runs that deliver nothing densely, or in place, end without another call of any rank") {
  for (const bool sparse : {true, false}) {
    RankCheck check;
    run_ranks(3,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = n, .algorithm = sparse ? "oktopk" : "dense_ring"});
                for (int t = 0; t < 3; ++t) {
                  std::vector<float> g = gradient_of(comm, t);
                  Operation operation = sparse ? plan.start_sparse(g) : plan.start(g);
                  stay_away_until([&] { return has_ended(plan); });
                  check.that(operation.test(), "it has ended");
                }
              },
              {.settings = threaded()});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a table's update goes on while its rank computes") {
  for (const std::string exchange : {"columns", "hashed_rows", "dense_allreduce"}) {
    const EmbeddingConfig config = make_table_config(exchange, 500, 8, 64);
    std::atomic<int> ended = 0;
    std::array<std::vector<float>, 2> values;
    for (const bool thread : {false, true}) {
      run_ranks(3,
                [&](Communicator& comm) {
                  EmbeddingTable table(comm, config);
                  for (int t = 0; t < 4; ++t) {
                    const TableBatch batch = make_table_batch(config, comm.rank(), t);
                    std::vector<float> vectors = room_for(table, batch);
                    table.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
                    Operation update = table.update(batch.gradients);
                    if (thread && comm.rank() == 2) stay_away_until([&] { return ended == 2 * (t + 1); });
                    update.wait();
                    if (thread && comm.rank() != 2) ++ended;
                  }
                  const std::vector<float> rows = all_rows(table);
                  if (comm.rank() == 0) values[thread ? 1 : 0] = rows;
                },
                {.settings = thread ? threaded() : Settings{.timeout_seconds = 120}});
    }
    INFO(exchange);
    REQUIRE(same_bits(values[0], values[1]));
  }
}

TEST_CASE("a gradient that has gone is left alone, as without the thread") {
  RankCheck check;
  std::atomic<int> away = 0;
  run_ranks(3,
            [&](Communicator& comm) {
              // Without messages, a run may end while it starts.
              const AllreduceConfig config{.count = n, .algorithm_parameters = "schedule=direct", .non_finite = NonFinite::skip};
              auto plan = std::make_optional<AllreducePlan>(comm, config);
              for (const bool finite : {true, false}) {
                std::vector<float> g = gradient_of(comm, 0);
                if (!finite && comm.rank() == 1) g[5] = std::numeric_limits<float>::infinity();
                const std::vector<float> before = g;
                static_cast<void>(plan->start(g));
                ++away;
                stay_away_until([&] { return away == (finite ? 3 : 6); });
                stay_away_until([&] {  // the run waits only for the caller's next call
                  const auto inside = comm.state()->enter();
                  return plan->state()->run.awaits_caller;
                });
                plan.reset();
                check.that(g == before, "it was written to");
                plan.emplace(comm, config);
              }
            },
            {.settings = threaded()});
  REQUIRE(check.failure() == "");
}

TEST_CASE("deadlines are for those who wait") {
  std::atomic<bool> late_one_is_there = false;
  RankCheck check;
  run_ranks(3,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n});
              std::vector<float> g = gradient_of(comm, 0);
              if (comm.rank() == 2) std::this_thread::sleep_for(2500ms);  // longer than the timeout
              Operation operation = plan.start(g);
              if (comm.rank() == 2) late_one_is_there = true;
              stay_away_until([&] { return late_one_is_there.load(); });
              try {
                operation.wait();
              } catch (const Error& error) {
                check.that(false, error.what());
              }
            },
            {.settings = threaded(2)});
  REQUIRE(check.failure() == "");
}

TEST_CASE("where a peer never comes, those who wait run out of time") {
  RankCheck check;
  run_ranks(3,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n});
              if (comm.rank() == 2) return;
              std::vector<float> g = gradient_of(comm, 0);
              Operation operation = plan.start(g);
              try {
                if (comm.rank() == 0)
                  operation.wait();
                else
                  while (!operation.test()) std::this_thread::sleep_for(1ms);
                check.that(false, "it runs");
              } catch (const Error& error) {
                check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
              }
            },
            {.settings = threaded(0.3)});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a run that breaks off on one rank ends on the others while they compute, and others go on") {
  SameErrors errors(3);
  std::atomic<int> ended = 0;
  run_ranks(
      3,
      [&](Communicator& comm) {
        AllreducePlan fine(comm, {.count = n});
        errors.expect(comm.rank(), WEIR_ERR_STATE, "rank 1: an exception of the caller's has ended a run", [&] {
          static std::mutex mutex;
          static std::vector<std::unique_ptr<std::vector<float>>> kept_as_told;
          auto g = std::make_unique<std::vector<float>>(200000, 1.0F);
          std::vector<float>& gradient = *g;
          {
            const std::scoped_lock lock(mutex);
            kept_as_told.push_back(std::move(g));
          }
          std::optional<AllreducePlan> plan(std::in_place, comm, AllreduceConfig{.count = 200000, .algorithm = "dense_ring"});
          if (comm.rank() == 1) {
            try {
              // Rank 1 takes no part before it breaks off, so the run is in flight on all other ranks.
              const auto inside = comm.state()->enter();
              const auto ends = std::make_unique<AllreducePlan>(std::move(*plan));
              static_cast<void>(ends->start(gradient));
              throw std::runtime_error("the caller's own");
            } catch (const std::runtime_error&) {
              fail(WEIR_ERR_STATE,
                   "'allreduce', rank 1: an exception of the caller's has ended a run in the middle of its exchange. Make a new "
                   "communicator; the network may still write to the gradient: keep its memory until the process ends");
            }
          }
          Operation operation = plan->start(gradient);
          stay_away_until([&] { return has_ended(*plan); });
          ++ended;
          operation.wait();
        });
        stay_away_until([&] { return ended == 2; });
      },
      {.settings = threaded(3600)});
  REQUIRE(errors.failure() == "");
}

TEST_CASE("communicators end while runs are in flight, in any order") {
  for (int round = 0; round < 20; ++round) {
    run_ranks(3,
              [&](Communicator& comm) {
                std::vector<float> g = gradient_of(comm, 0), h = g;
                AllreducePlan dense(comm, {.count = n, .algorithm = "dense_rabenseifner"}), sparse(comm, {.count = n});
                static_cast<void>(comm.rank() == 0 ? dense.start(h) : sparse.start(g));
                static_cast<void>(comm.rank() == 0 ? sparse.start(g) : dense.start(h));
                if (comm.rank() == round % 3) std::this_thread::sleep_for(1ms);
              },
              {.seed = static_cast<std::uint64_t>(round), .settings = threaded()});
  }
}

TEST_CASE("calls at random beside the thread change no result") {
  constexpr int ranks = 3;
  constexpr std::array algorithms = {"oktopk", "dense_ring", "hi_oktopk", "topk_allgather"};
  const int steps = test_every() > 1 ? 12 : 60;
  const EmbeddingConfig config = make_table_config("hashed_rows", 200, 4, 32);
  std::array<std::array<std::vector<std::vector<float>>, ranks>, 2> results;
  std::array<TrainedTable, 2> tables;
  for (const bool thread : {false, true}) {
    run_ranks(ranks,
              [&](Communicator& comm) {
                Dice dice(static_cast<std::uint64_t>(comm.rank()) + 7);
                std::vector<std::unique_ptr<AllreducePlan>> plans;
                for (const char* algorithm : algorithms)
                  plans.push_back(std::make_unique<AllreducePlan>(
                      comm, AllreduceConfig{.count = n, .algorithm = algorithm, .priority = static_cast<int>(plans.size() % 2)}));
                EmbeddingTable table(comm, config);
                auto& mine = results[thread ? 1 : 0][static_cast<std::size_t>(comm.rank())];
                for (int t = 0; t < steps; ++t) {
                  std::vector<std::vector<float>> g(plans.size(), gradient_of(comm, t));
                  std::vector<std::optional<Operation>> operations(plans.size());
                  const TableBatch batch = make_table_batch(config, comm.rank(), t);
                  std::vector<float> vectors = room_for(table, batch);
                  Operation lookup = table.lookup(std::span<const std::int64_t>(batch.ids), vectors);
                  for (const std::size_t p : dice.order(plans.size())) operations[p] = plans[p]->start(g[p]);
                  for (int calls = static_cast<int>(dice.between(0, 6)); calls > 0; --calls) {
                    const auto p = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(plans.size()) - 1));
                    if (dice.chance(30)) std::this_thread::sleep_for(std::chrono::microseconds(dice.between(0, 300)));
                    if (dice.chance(30)) static_cast<void>(plans[p]->memory_bytes());
                    if (operations[p] && operations[p]->test()) operations[p].reset();
                  }
                  lookup.wait();
                  static_cast<void>(table.update(batch.gradients));
                  for (const std::size_t p : dice.order(plans.size())) {
                    if (operations[p]) operations[p]->wait();
                  }
                  mine.push_back(vectors);
                  mine.insert(mine.end(), g.begin(), g.end());
                }
                const std::vector<float> rows = all_rows(table);
                if (comm.rank() == 0) tables[thread ? 1 : 0].values = rows;
              },
              {.seed = 5, .machine = "nodes:2,1", .settings = thread ? threaded() : Settings{.timeout_seconds = 120}});
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) REQUIRE(results[0][rank] == results[1][rank]);
  REQUIRE(tables[0] == tables[1]);
}

TEST_CASE("with the thread, too, runs allocate nothing once they have run for a while") {
  std::barrier<> together(3);
  std::atomic<std::int64_t> before = 0, after = 0;
  run_ranks(3,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n});
              std::vector<std::vector<float>> inputs;
              for (int t = 0; t < 60; ++t) inputs.push_back(gradient_of(comm, t));
              for (std::size_t t = 0; t < inputs.size(); ++t) {
                if (t == inputs.size() / 2) {
                  together.arrive_and_wait();
                  before = allocations_of_all_threads();
                  together.arrive_and_wait();
                }
                Operation operation = plan.start(inputs[t]);
                if (static_cast<int>(t) % 3 == comm.rank()) std::this_thread::sleep_for(200us);
                operation.wait();
              }
              together.arrive_and_wait();
              after = allocations_of_all_threads();
              together.arrive_and_wait();
            },
            {.settings = threaded()});
  REQUIRE(after == before);
}

TEST_CASE("a progress thread that finds no core free is not started, and the log says so once") {
  const auto started = [](const std::vector<CoreSet>& cores, ProgressThreadSetting setting) {
    InprocJob job(2, 0);
    std::array<std::thread, 2> ranks;
    std::array<bool, 2> has{};
    for (int rank = 0; rank < 2; ++rank) {
      ranks[static_cast<std::size_t>(rank)] = std::thread([&, rank, transport = job.transport(rank)]() mutable {
        Location location;
        location.cores = cores[static_cast<std::size_t>(rank)];
        const auto comm = detail::make_communicator(std::move(transport), location, Settings{.progress_thread = setting});
        has[static_cast<std::size_t>(rank)] = comm->has_progress_thread();
      });
    }
    for (std::thread& thread : ranks) thread.join();
    return static_cast<int>(has[0]) + static_cast<int>(has[1]);
  };
  CoreSet one, three, four;
  one.insert(0);
  for (int core = 0; core < 4; ++core) (core < 3 ? three : four).insert(core);
  for (int core = 0; core < 3; ++core) four.insert(core);
  {
    const LogOf log;
    CHECK(started({three, three}, ProgressThreadSetting::on) == 0);
    CHECK(log.text() ==
          "rank 0: WEIR_PROGRESS_THREAD is on, but 2 ranks share 3 cores: none is free; not started. Give each rank two cores, or "
          "set "
          "it to anywhere\n");
  }
  const LogOf log;
  CHECK(started({four, four}, ProgressThreadSetting::on) == 2);
  CHECK(started({one, one}, ProgressThreadSetting::anywhere) == 2);
  CHECK(started({four, four}, ProgressThreadSetting::off) == 0);
  CHECK(log.text().empty());
}

}  // namespace weir::test
