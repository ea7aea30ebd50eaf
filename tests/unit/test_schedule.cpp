// StepSchedule: priorities by block, operations in flight, and errors that name the blocks.
#include <weir/schedule.hpp>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

template <class Call>
std::string argument_error(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status() == WEIR_ERR_ARGUMENT ? error.what() : "another status";
  }
  return "no error";
}

bool is_pending(const StepSchedule& schedule, const std::vector<std::tuple<std::string, int, int>>& right) {
  const std::vector<StepSchedule::Pending> pending = schedule.pending();
  return std::equal(pending.begin(), pending.end(), right.begin(), right.end(), [](const StepSchedule::Pending& p, const auto& r) {
    return std::tuple(std::string(p.block), p.priority, p.operations) == r;
  });
}

}  // namespace

TEST_CASE("blocks that come first in the forward pass are more urgent") {
  const StepSchedule schedule({"encoder", "decoder", "softmax"});
  CHECK(schedule.priority("encoder") == 3);
  CHECK(schedule.priority("decoder") == 2);
  CHECK(schedule.priority("softmax") == 1);
  CHECK(schedule.pending().empty());
}

TEST_CASE("unknown and duplicate blocks") {
  CHECK_THAT(argument_error([] { StepSchedule({"a", "b", "a"}); }), ContainsSubstring("two blocks are called 'a'"));
  StepSchedule schedule({"encoder", "decoder"});
  const std::string right = "there is no block 'encode': the blocks are encoder, decoder";
  CHECK(argument_error([&] { static_cast<void>(schedule.priority("encode")); }) == right);
  CHECK(argument_error([&] { schedule.wait("encode"); }) == right);
  CHECK(argument_error([&] { schedule.test("encode"); }) == right);
  StepSchedule nothing({});
  nothing.wait_all();
  CHECK(argument_error([&] { nothing.wait(""); }) != "no error");
}

TEST_CASE("what is in flight, until it is waited for or tested") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    StepSchedule schedule({"encoder", "decoder", "softmax"});
    std::vector<AllreducePlan> plans;
    std::vector<std::vector<float>> gradients(4);
    const std::vector<std::string> blocks = {"encoder", "softmax", "softmax", "decoder"};
    for (const std::string& block : blocks)
      plans.emplace_back(
          comm, AllreduceConfig{.count = 100, .algorithm = "dense_ring", .average = false, .priority = schedule.priority(block)});
    const auto start = [&](std::size_t p) {
      gradients[p].assign(100, static_cast<float>(p + 1));
      schedule.started(blocks[p], plans[p].start(gradients[p]));
    };
    const auto is_done = [&](std::size_t p) { return gradients[p] == std::vector<float>(100, 3 * static_cast<float>(p + 1)); };
    const int me = comm.rank();
    for (std::size_t i = 0; i < 3; ++i) start((i + static_cast<std::size_t>(me)) % 3);
    check.that(is_pending(schedule, {{"encoder", 3, 1}, {"softmax", 1, 2}}), "three in flight");
    schedule.wait("decoder");  // nothing in flight
    schedule.wait("encoder");
    check.that(is_done(0), "the first block's sum");
    check.that(is_pending(schedule, {{"softmax", 1, 2}}), "two in flight");
    while (!schedule.test("softmax")) {
    }
    check.that(is_done(1) && is_done(2), "the last block's sums");
    check.that(schedule.test("softmax") && schedule.pending().empty(), "nothing in flight");

    for (std::size_t p = 4; p-- > 0;) start(p);
    check.that(schedule.pending().size() == 3, "all in flight");
    schedule.wait_all();
    check.that(schedule.pending().empty() && is_done(0) && is_done(1) && is_done(2) && is_done(3), "all sums");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("what an operation ends with is thrown once, and the others of the block remain") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    StepSchedule schedule({"block"});
    AllreducePlan good(comm, {.count = 10, .algorithm = "dense_ring", .average = false}),
        bad(comm, {.count = 10, .algorithm = "dense_ring"});
    for (const bool waits : {true, false}) {
      std::vector<float> g(10, 1);
      const auto finish = [&] {
        if (waits)
          schedule.wait("block");
        else
          while (!schedule.test("block")) {
          }
      };
      schedule.started("block", good.start(g));
      schedule.started("block", bad.start_raw(nullptr, nullptr, 10));
      check.that(argument_error(finish).find("gave a null gradient") != std::string::npos, "error of the bad one");
      finish();
      check.that(g == std::vector<float>(10, 2) && schedule.pending().empty(), "the good one is done");
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
