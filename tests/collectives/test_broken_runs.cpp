// Runs that break off: which ranks get an error, which memory is touched afterwards, and what still works.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

std::vector<float> ramp(std::int64_t count, int rank) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) + static_cast<float>(rank);
  return values;
}

std::int64_t live_bytes() { return static_cast<std::int64_t>(mallinfo2().uordblks); }

struct Body {
  int failing_rank;
  std::array<std::uint64_t, 2> words{};
};

task<void> agree_or_fail(Channel channel, Body& body) {
  co_await allreduce_control(channel, body.words.data(), 1, 1, body.words.data() + 1);
  if (channel.rank() == body.failing_rank) throw std::bad_alloc();
  co_await allreduce_control(channel, body.words.data(), 1, 1, body.words.data() + 1);
}

}  // namespace

TEST_CASE("an exception that is not Weir's ends a run on all ranks with the same error, long before the deadline") {
  SameErrors errors(4);
  run_ranks(4,
            [&](Communicator& comm) {
              Body body{2};
              errors.expect(comm.rank(), WEIR_ERR_MEMORY, "'test', rank 2: out of memory", [&] {
                comm.state()->run_blocking("test", 100, [&](Channel channel) { return agree_or_fail(channel, body); });
              });
              AllreducePlan plan(comm, {.count = 100});  // others go on
              std::vector<float> gradient = ramp(100, comm.rank());
              plan.run(gradient);
            },
            {.settings = {.timeout_seconds = 3600}});
  REQUIRE(errors.failure() == "");
}

TEST_CASE("a run that nobody has waited for is refused another one, and keeps its error for who waits") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SameErrors errors(3);
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 50, .k = 50, .average = false});
    std::vector<float> gradient = ramp(50, comm.rank());
    if (comm.rank() == 1) gradient[3] = nan;
    AllreducePlan other(comm, {.count = 50});
    std::vector<float> another = ramp(50, comm.rank());
    Operation operation = plan.start(gradient);
    other.run(another);
    if (comm.rank() != 2) {  // ranks that have polled, and one that perhaps has not
      while (!plan.state()->run.finished) comm.state()->engine.poll();
    }
    std::vector<float> next = ramp(50, comm.rank());
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "wait for its last start", [&] { static_cast<void>(plan.start(next)); });
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "is running: wait", [&] { (void)plan.state_bytes(); });
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "is running: wait", [&] { (void)plan.encoded_bytes(); });
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "is running: wait", [&] { (void)plan.residual<float>(); });
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "is running: wait", [&] { plan.scale_residual(2); });
    errors.expect(comm.rank(), WEIR_ERR_BUSY, "is running: wait", [&] { plan.reset(); });
    errors.expect(comm.rank(), WEIR_ERR_NON_FINITE, "the gradient of rank 1", [&] { operation.wait(); });
    gradient = ramp(50, comm.rank());
    plan.run(gradient);
    errors.check().that(gradient[4] == 4 * 3 + 3, "the run after the one that was refused");
  });
  REQUIRE(errors.failure() == "");
}

TEST_CASE("a timeout that nobody has waited for breaks the plan all the same") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 500});
    set_timeout(comm, 0.2);
    if (comm.rank() == 2) return;  // never comes
    std::vector<float> gradient = ramp(500, comm.rank());
    Operation operation = plan.start(gradient);
    while (!plan.state()->run.finished) comm.state()->engine.poll();
    for (const weir_status status : {WEIR_ERR_BUSY, WEIR_ERR_TIMEOUT, WEIR_ERR_STATE}) {
      try {
        status == WEIR_ERR_TIMEOUT ? operation.wait() : plan.run(gradient);
        check.that(false, "it runs");
      } catch (const Error& error) {
        check.that(error.status() == status, error.what());
      }
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE(
    "after a timeout late messages touch nothing that has been freed, and no gradient but those of dense plans, which say so") {
  // Rank 2 comes after the others have given up. Its messages still match receives, and it still reads the messages that they have
  // sent. The address sanitizer sees which memory that touches.
  static std::mutex mutex;
  static std::vector<std::unique_ptr<std::vector<float>>> kept_as_told;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    for (const std::string machine : {"node:3 rank:1", "node:1 rank:3"}) {
      for (const bool shared_memory : {true, false}) {
        if (left_out(4)) continue;
        std::atomic<int> ended = 0;
        RankCheck check;
        Settings settings;
        settings.shared_memory = shared_memory;
        const auto body = [&](Communicator& comm) {
          AllreducePlan plan(comm, {.count = 3000, .algorithm = std::string(row.name)});
          set_timeout(comm, 0.1);
          auto gradient = std::make_unique<std::vector<float>>(ramp(3000, comm.rank()));
          while (comm.rank() == 2 && ended < 2) std::this_thread::yield();
          try {
            plan.run(*gradient);
          } catch (const Error& error) {
            const bool warns = std::string(error.what()).find("keep its memory until the process ends") != std::string::npos;
            if (row.sparse()) check.that(!warns, error.what());
            const std::scoped_lock lock(mutex);
            if (warns) kept_as_told.push_back(std::move(gradient));
          }
          gradient.reset();
          ++ended;
          while (ended < 3) comm.state()->engine.poll();
        };
        run_ranks(3, body, {.machine = machine, .fault = {.late = true}, .settings = settings});
        INFO(row.name << " on " << machine);
        REQUIRE(check.failure() == "");
      }
    }
  }
}

TEST_CASE("a sparse plan reads the gradient when it starts; if it ends in flight, others get their result, and it writes nothing") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.sparse()) continue;
    for (const bool shared_memory : {true, false}) {
      RankCheck check;
      Settings settings{.timeout_seconds = 20};
      settings.shared_memory = shared_memory;
      const auto body = [&](Communicator& comm) {
        std::vector<float> expected;
        for (const bool leaves : {false, true}) {
          std::vector<float> gradient = ramp(2000, comm.rank());
          {
            AllreducePlan plan(comm, {.count = 2000, .algorithm = std::string(row.name)});
            Operation operation = plan.start(gradient);
            std::fill(gradient.begin(), gradient.end(), 1e9F);
            if (leaves && comm.rank() == 1) continue;
            operation.wait();
          }
          if (!leaves) expected = gradient;
          check.that(gradient == expected, "another result");
        }
      };
      run_ranks(4, body, {.machine = "node:2 rank:2", .settings = settings});
      INFO(row.name);
      REQUIRE(check.failure() == "");
      std::atomic<bool> untouched = true;
      run_ranks(4,
                [&](Communicator& comm) {
                  std::vector<float> gradient = ramp(2000, comm.rank());
                  static_cast<void>(AllreducePlan(comm, {.count = 2000, .algorithm = std::string(row.name)}).start(gradient));
                  if (gradient != ramp(2000, comm.rank())) untouched = false;
                },
                {.machine = "node:2 rank:2", .settings = settings});
      REQUIRE(untouched);
    }
  }
}

TEST_CASE("runs that failed or were skipped do not count for schedules of density") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const NonFinite policy : {NonFinite::error, NonFinite::skip}) {
    RankCheck check;
    run_ranks(2, [&](Communicator& comm) {
      AllreducePlan plan(comm,
                         {.count = 4000, .density = 0.01, .non_finite = policy, .dense_iterations = 1, .warmup_iterations = 3});
      std::vector<std::int64_t> seen;
      for (int t = 0; t < 8; ++t) {
        std::vector<float> gradient = ramp(4000, comm.rank());
        const bool bad = t == 0 || t == 2 || t == 3;
        if (bad) gradient[0] = nan;
        try {
          plan.run(gradient);
        } catch (const Error&) {
        }
        check.that(plan.statistics().iteration == t + 1, "runs are not counted");
        if (!bad) seen.push_back(plan.statistics().k);
      }
      check.that(seen == std::vector<std::int64_t>{4000, 1000, 342, 117, 40}, "k follows another schedule");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("one thread starts, another waits, and memory does not grow") {
  InprocJob job(1, 0);
  Communicator comm(detail::make_communicator(job.transport(0), Location{}, Settings{}));
  AllreducePlan plan(comm, {.count = 100});
  std::vector<float> gradient = ramp(100, 0);
  const auto turn = [&](int turns) {
    for (int i = 0; i < turns; ++i) {
      std::optional<Operation> operation;
      std::thread([&] { operation = plan.start(gradient); }).join();
      std::thread([&] { operation->wait(); }).join();
    }
  };
  turn(10);
  const std::int64_t before = live_bytes();
  turn(200);
  REQUIRE(live_bytes() - before < 2000);
}

TEST_CASE("a plan that ends leaves alone the gradients of others in flight, which may be gone as well") {
  // As in `Plan a, b; { std::vector<float> g, h; a.start(g); b.start(h); throw ...; }`: b ends first, and drives a's run meanwhile.
  // Without messages, a run may end while it starts.
  for (const Input input : {Input::heavy_tailed, Input::few_nonzeros}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      auto first =
          std::make_optional<AllreducePlan>(comm, AllreduceConfig{.count = 200, .algorithm_parameters = "schedule=direct"});
      auto second = std::make_optional<AllreducePlan>(
          comm, AllreduceConfig{.count = 20000, .algorithm_parameters = "schedule=direct", .non_finite = NonFinite::skip});
      std::vector<float> g = make_input<float>(input, 200, comm.rank(), 3, 0),
                         h = make_input<float>(input, 20000, comm.rank(), 3, 0);
      if (comm.rank() == 1) h[5] = std::numeric_limits<float>::infinity();  // a skipped gradient is taken back from the residual
      const std::vector<float> g_before = g, h_before = h;
      static_cast<void>(first->start(g));
      static_cast<void>(second->start(h));
      second.reset();
      first.reset();
      check.that(g == g_before && h == h_before, "a gradient was written to");
      AllreducePlan(comm, {.count = 200}).run(g);
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a dense plan that an exception ends in flight breaks off on all ranks, soon: its gradient may be gone") {
  for (const std::string algorithm : {"dense_ring", "dense_rabenseifner", "dense_torus2d"}) {
    SameErrors errors(3);
    // Without messages, a rank could give all that others need before its exception. They advance their runs only after that.
    std::barrier<> started(3), gone(3);
    run_ranks(
        3,
        [&](Communicator& comm) {
          std::vector<float> gradient = ramp(50000, comm.rank());
          errors.expect(comm.rank(), WEIR_ERR_STATE, "rank 1: an exception of the caller's has ended a run", [&] {
            AllreducePlan plan(comm, {.count = 50000, .algorithm = algorithm});
            if (comm.rank() != 1) {
              Operation operation = plan.start(gradient);
              started.arrive_and_wait();
              gone.arrive_and_wait();
              return operation.wait();
            }
            started.arrive_and_wait();
            try {
              const auto ends = std::make_unique<AllreducePlan>(std::move(plan));
              const std::vector<float> before = gradient;
              static_cast<void>(ends->start(gradient));
              throw std::runtime_error("the caller's own");
            } catch (const std::runtime_error&) {
              gone.arrive_and_wait();
              fail(WEIR_ERR_STATE,
                   "'allreduce', rank 1: an exception of the caller's has ended a run in the middle of its exchange. Make a new "
                   "communicator; the network may still write to the gradient: keep its memory until the process ends");
            }
          });
          static std::mutex mutex;
          static std::vector<std::vector<float>> kept_as_told;
          const std::scoped_lock lock(mutex);
          kept_as_told.push_back(std::move(gradient));
        },
        {.settings = {.timeout_seconds = 3600}});
    INFO(algorithm);
    REQUIRE(errors.failure() == "");
  }
}

TEST_CASE("who comes after the others have given up hears of it at once") {
  RankCheck check;
  std::atomic<int> ended = 0;
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 500});
    set_timeout(comm, 3);
    std::vector<float> gradient = ramp(500, comm.rank());
    while (comm.rank() == 2 && ended < 2) std::this_thread::yield();
    const Clock::time_point begin = Clock::now();
    try {
      plan.run(gradient);
      check.that(false, "it runs");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
      const std::string text = error.what();
      const bool own = text.find("rank 2 waited") != std::string::npos;
      check.that(comm.rank() != 2 || (!own && Clock::now() - begin < std::chrono::milliseconds(1500)), text);
    }
    ++ended;
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("after a timeout in the making of a plan the communicator makes nothing any more, and says so on every rank") {
  for (const std::string algorithm : {"oktopk", "dense_torus2d", "auto"}) {
    RankCheck check;
    std::barrier<> together(2);
    run_ranks(2, [&](Communicator& comm) {
      const auto make = [&] { return AllreducePlan(comm, {.count = 1000, .algorithm = algorithm}); };
      bool made = false;
      AllreducePlan before = make();
      set_timeout(comm, 0.5);
      if (comm.rank() == 0) {
        try {
          static_cast<void>(make());
          check.that(false, "a plan was made by one rank of two");
        } catch (const Error& error) {
          check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
        }
      }
      together.arrive_and_wait();
      for (int again = 0; again < 3; ++again) {
        try {
          static_cast<void>(make());
          check.that(comm.rank() == 1 && !made, "a plan was made");  // rank 1 needs only the data that rank 0 has sent
          made = true;
        } catch (const Error& error) {
          const bool told = error.status() == WEIR_ERR_TIMEOUT || error.status() == WEIR_ERR_STATE;
          check.that(told, error.what());
        }
      }
      together.arrive_and_wait();
      set_timeout(comm, 60);
      std::vector<float> gradient = ramp(1000, comm.rank());
      before.run(gradient);  // an existing plan still works
    });
    INFO(algorithm);
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
