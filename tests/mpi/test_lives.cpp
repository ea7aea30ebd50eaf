// Long lives over MPI: a process's resources and a plan's messages do not depend on the number of earlier plans, or of other plans.
// The test counts and measures no times.
#include <weir/mpi.h>

#include <functional>

#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/lives.hpp"
#include "support/mpi_calls.hpp"
#include "support/small_plans.hpp"

namespace weir::test {
namespace {

constexpr int warm_up = 1200;  // a multiple of how many kinds there are
constexpr int usual_part = 600;

/// The costs of one part of a life.
struct Cost {
  MpiCalls calls;
  std::int64_t allocations;
};

template <class Body>
Cost cost_of(int from, int to, Body body) {
  const MpiCalls before = mpi_calls();
  const std::int64_t allocations = allocations_of_this_thread();
  bool right = true;
  for (int i = from; i < to; ++i) right = body(i) && right;
  REQUIRE(right);
  return {mpi_calls() - before, allocations_of_this_thread() - allocations};
}

/// Checks that `later` costs no more than `early`. Both have the same number of lives.
void check_no_dearer(const Cost& early, const Cost& later) {
  CHECK(later.calls.messages <= early.calls.messages);
  CHECK(later.calls.collectives <= early.calls.collectives);
  CHECK(later.calls.communicators <= early.calls.communicators);
  CHECK(later.calls.windows <= early.calls.windows);
  CHECK(later.allocations <=
        early.allocations + early.allocations / 1000);  // lists of the MPI library's and ours still grow now and then
}

/// Runs `count` lives one after another, and compares the first `part` of them with the last.
void check_lives(int count, int part, const std::function<bool(int)>& live) {
  cost_of(0, 2 * part, live);
  const Holdings before = Holdings::now();
  const Cost early = cost_of(0, part, live);
  cost_of(0, count, live);
  const Cost later = cost_of(0, part, live);
  CHECK(growth(before, Holdings::now()) == "");
  CHECK(early.calls.communicators == 0);
  CHECK(early.calls.windows == 0);
  check_no_dearer(early, later);
}

}  // namespace

TEST_CASE("plans made and destroyed") {
  const Communicator comm(MPI_COMM_WORLD);
  check_lives(lives(100000), usual_part, [&](int i) { return live_and_die(comm, i); });
}

TEST_CASE("plans that run often") {
  const Communicator comm(MPI_COMM_WORLD);
  SmallPlans plans(comm);
  const int part = plans.round();
  const auto runs = [&](int count) { return cost_of(0, count, [&](int) { return plans.run(); }); };
  runs(8 * part);  // messages of topk_dsa rise until then
  const Holdings before = Holdings::now();
  Cost early = runs(part);
  for (int i = 0; i < 3 && test_every() > 1; ++i)  // a shorter life ends at a part that sends 0.2 % more
    early.calls.messages = std::max(early.calls.messages, runs(part).calls.messages);
  runs(std::max(1, lives(100000) / part) * part);
  const Cost later = runs(part);
  CHECK(growth(before, Holdings::now()) == "");
  CHECK(early.allocations == 0);
  CHECK(later.allocations == 0);
  check_no_dearer(early, later);
  CHECK(later.calls.collectives == 0);
  CHECK(plans.lost() == 0);
}

TEST_CASE("tables made and destroyed") {
  const Communicator comm(MPI_COMM_WORLD);
  check_lives(lives(10000), usual_part, [&](int i) { return table_lives_and_dies(comm, i); });
}

TEST_CASE("communicators made and destroyed") {
  const Communicator around(MPI_COMM_WORLD);
  check_lives(lives(200), 40, [&](int i) {
    const Communicator comm(MPI_COMM_WORLD);
    return live_and_die(comm, i) && live_and_die(around, i);
  });
}

TEST_CASE("plans alive at once") {
  const Communicator comm(MPI_COMM_WORLD);
  constexpr int part = usual_part;
  const int count = std::max(4 * part, lives(5000));
  cost_of(0, warm_up, [&](int i) { return live_and_die(comm, i); });
  const Holdings before = Holdings::now();
  {
    std::vector<AllreducePlan> plans;
    plans.reserve(static_cast<std::size_t>(count));
    const auto make = [&](int i) {
      plans.emplace_back(comm, config_of_life(i));
      return runs_right(plans.back(), comm.size());
    };
    cost_of(0, part, make);
    const Holdings with_few = Holdings::now();
    const auto mapped = [&] { return comm.state()->leases.node_memory().mapped(); };
    const auto taken = [&] { return comm.state()->leases.node_memory().taken(); };
    const std::int64_t mapped_with_few = mapped(), taken_with_few = taken();
    const Cost early = cost_of(part, 2 * part, make);
    const Holdings with_more = Holdings::now();
    const std::int64_t mapped_with_more = mapped(), taken_with_more = taken();
    cost_of(2 * part, count - part, make);
    const Holdings with_most = Holdings::now();
    const std::int64_t mapped_with_most = mapped(), taken_with_most = taken();
    const Cost later = cost_of(count - part, count, make);
    // Some lists double their capacity; allow that once more.
    const std::int64_t few = with_more.heap - with_few.heap, most = Holdings::now().heap - with_most.heap;
    CHECK(most <= 2 * few + (1 << 19));
    // A segment more of shared memory takes four exchanges, in which each of the two ranks sends and receives, and pages one.
    const bool one_more = mapped() > mapped_with_most && mapped_with_more == mapped_with_few;
    const bool more_pages = taken() > taken_with_most && taken_with_more == taken_with_few;
    CHECK(later.calls.messages <= early.calls.messages + (one_more ? 4 * 2 : more_pages ? 2 : 0));
    CHECK(later.calls.collectives <= early.calls.collectives);
    bool right = true;
    for (AllreducePlan& plan : plans) right = runs_right(plan, comm.size()) && right;
    REQUIRE(right);
  }
  // The next plans reuse their resources.
  const Holdings after = Holdings::now();
  {
    std::vector<AllreducePlan> plans;
    cost_of(0, count, [&](int i) {
      plans.emplace_back(comm, config_of_life(i));
      return runs_right(plans.back(), comm.size());
    });
  }
  CHECK(growth(after, Holdings::now()) == "");
  CHECK(after.files <= before.files + 64);
  CHECK(all_leases_returned(comm, count));
}

TEST_CASE("plans of growing size") {
  const Communicator comm(MPI_COMM_WORLD);
  const std::int64_t step = std::max<std::int64_t>(1000, lives(100000));
  constexpr int sizes = 64;
  for (const char* algorithm : {"dense_torus2d", "hi_oktopk"}) {
    INFO(algorithm);
    cost_of(0, warm_up, [&](int i) { return live_and_die(comm, i); });
    const Holdings before = Holdings::now();
    cost_of(1, sizes + 1, [&](int i) {
      AllreducePlan plan(comm, {.count = i * step, .density = 1, .algorithm = algorithm, .average = false});
      return runs_right(plan, comm.size());
    });
    const Holdings after = Holdings::now();
    // Shared memory may be kept for the next plan: twice the largest need, for every rank that maps it.
    const std::int64_t largest = sizes * step * static_cast<std::int64_t>(sizeof(float)) * comm.size();
    CHECK(after.shared <= 2 * largest + (1 << 23));
    CHECK(after.heap - before.heap <= 1 << 20);
  }
}

}  // namespace weir::test
