// The engine and the in-process transport: priorities, order of messages, deadlines, bookkeeping of large messages.
#include <thread>

#include "async/channel.hpp"
#include "async/engine.hpp"
#include "base/error.hpp"
#include "support/catch.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::test {
namespace {

/// One rank that sends to itself.
struct Alone {
  explicit Alone(std::chrono::nanoseconds hold_time = Engine::usual_hold_time, double timeout_seconds = 0.2)
      : engine(*transport, timeout_seconds, hold_time) {}
  InprocJob job{1, 0};
  std::unique_ptr<Transport> transport = job.transport(0);
  Engine engine;
  Topology topology{std::vector<Location>(1), 0};
  TrafficCount traffic;
  Channel channel(Run& run) { return Channel(engine, topology, run, traffic); }
};

/// Throws what the run has ended with.
void rethrow_error(const Run& run) {
  if (run.error) std::rethrow_exception(run.error);
}

task<void> note_when_received(Channel channel, int& value, std::vector<int>& order, int name) {
  const StageScope stage = channel.stage(Stage::announce);
  co_await channel.done(channel.receive(&value, sizeof value, 0, Traffic::control));
  order.push_back(name);
}

/// Two runs of different priority, each waiting for numbers: the urgent one for two of them.
struct TwoRuns {
  explicit TwoRuns(Alone& alone_rank) : alone(alone_rank) {
    low.tag = 0;
    urgent.tag = 1;
    urgent.priority = 1;
    low.root = note_when_received(alone.channel(low), low_value, order, 0);
    urgent.root = wait_twice(alone.channel(urgent), urgent_value, order);
    alone.engine.start(low);
    alone.engine.start(urgent);
  }
  void send(int tag) { sent.push_back(alone.transport->send(&number, sizeof number, 0, tag)); }
  void poll_often() {
    for (int i = 0; i < 100; ++i) alone.engine.poll();
  }
  static task<void> wait_twice(Channel channel, int& value, std::vector<int>& order) {
    co_await note_when_received(channel, value, order, 1);
    co_await note_when_received(channel, value, order, 2);
  }
  Alone& alone;
  Run low, urgent;
  int number = 7, low_value = 0, urgent_value = 0;
  std::vector<int> order;
  std::vector<Request> sent;
};

struct Switch final : Completion {
  bool reached() override { return on; }
  bool on = false;
};

task<void> note_when_done(Channel channel, Switch& completion, std::vector<int>& order, int name) {
  co_await channel.done(completion);
  order.push_back(name);
}

task<void> note_in_turn(Channel channel, std::vector<int>& order, int name) {
  co_await channel.turn();
  order.push_back(name);
}

task<int> twice(int x) { co_return 2 * x; }
task<int> nested(int x) {
  const int once = co_await twice(x);
  co_return co_await twice(once);
}
task<void> throws_inside() {
  co_await twice(1);
  fail(WEIR_ERR_INTERNAL, "inside");
}

}  // namespace

TEST_CASE("tasks nest and pass exceptions on") {
  Alone alone;
  Run run;
  int result = 0;
  const auto body = [](int& out) -> task<void> { out = co_await nested(5); };
  run.root = body(result);
  alone.engine.start(run);
  REQUIRE(run.finished);
  REQUIRE(result == 20);
  run.root = throws_inside();
  alone.engine.start(run);
  REQUIRE(run.finished);
  REQUIRE_THROWS_AS(rethrow_error(run), Error);
}

TEST_CASE("of several ready runs the most urgent goes first") {
  Alone alone;
  std::vector<int> order, values(3);
  std::vector<Run> runs(3);
  const std::vector<int> priority = {1, 5, 3};
  for (int i = 0; i < 3; ++i) {
    Run& run = runs[static_cast<std::size_t>(i)];
    run.tag = i;
    run.priority = priority[static_cast<std::size_t>(i)];
    run.root = note_when_received(alone.channel(run), values[static_cast<std::size_t>(i)], order, i);
    alone.engine.start(run);
  }
  const int number = 7;
  std::vector<Request> sends;
  for (int i = 0; i < 3; ++i) sends.push_back(alone.transport->send(&number, sizeof number, 0, i));
  while (alone.engine.poll()) {
  }
  REQUIRE(order == std::vector<int>{1, 2, 0});
  for (const Request send : sends) REQUIRE(alone.transport->test(send));
}

TEST_CASE("while an urgent run gets on, runs of lower priority are not polled") {
  Alone alone(std::chrono::hours(1), 3600);
  TwoRuns runs(alone);
  runs.send(0);
  runs.poll_often();
  REQUIRE(runs.order.empty());
  runs.send(1);
  runs.poll_often();
  REQUIRE(runs.order == std::vector<int>{1});
  runs.send(1);
  runs.poll_often();
  REQUIRE(runs.order == std::vector<int>{1, 2, 0});
  REQUIRE((runs.low.finished && runs.urgent.finished));
}

TEST_CASE("a run of the same priority is not held back") {
  Alone alone(std::chrono::hours(1), 3600);
  TwoRuns runs(alone);
  Run peer;
  int value = 0;
  peer.tag = 2;
  peer.priority = 1;
  peer.root = note_when_received(alone.channel(peer), value, runs.order, 3);
  alone.engine.start(peer);
  runs.send(2);
  runs.poll_often();
  REQUIRE(runs.order == std::vector<int>{3});
  for (const int tag : {0, 1, 1}) runs.send(tag);
  runs.poll_often();
  REQUIRE(runs.order == std::vector<int>{3, 1, 2, 0});
}

TEST_CASE("a run that waits for its turn goes on when no more urgent one gets on") {
  Alone alone(std::chrono::hours(1), 3600);
  TwoRuns runs(alone);
  Run last;
  last.tag = 2;
  last.root = note_in_turn(alone.channel(last), runs.order, 3);
  alone.engine.start(last);
  runs.poll_often();
  REQUIRE(runs.order.empty());
  runs.send(1);
  runs.send(1);
  runs.poll_often();
  REQUIRE(runs.order == std::vector<int>{1, 2, 3});
  REQUIRE(last.finished);
  runs.send(0);
  alone.engine.drive(runs.low);
}

TEST_CASE("an urgent run that waits for long no longer holds others back") {
  for (const auto hold_time : {std::chrono::milliseconds(0), std::chrono::milliseconds(5)}) {
    Alone alone(hold_time, 3600);
    TwoRuns runs(alone);
    runs.send(0);
    alone.engine.drive(runs.low);  // the urgent run's numbers have not been sent
    REQUIRE(runs.order == std::vector<int>{0});
    runs.send(1);
    runs.send(1);
    alone.engine.drive(runs.urgent);
    REQUIRE(runs.order == std::vector<int>{0, 1, 2});
  }
}

TEST_CASE("an urgent run that waits for a GPU does not hold others back") {
  Alone alone(std::chrono::hours(1), 3600);
  std::vector<int> order;
  Switch gpu;
  int value = 0;
  const int number = 7;
  Run low, urgent;
  urgent.tag = 1;
  urgent.priority = 1;
  low.root = note_when_received(alone.channel(low), value, order, 0);
  urgent.root = note_when_done(alone.channel(urgent), gpu, order, 1);
  alone.engine.start(low);
  alone.engine.start(urgent);
  const Request send = alone.transport->send(&number, sizeof number, 0, 0);
  for (int i = 0; i < 100; ++i) alone.engine.poll();
  REQUIRE(order == std::vector<int>{0});
  REQUIRE(alone.transport->test(send));
  gpu.on = true;
  alone.engine.drive(urgent);
  REQUIRE(order == std::vector<int>{0, 1});
}

TEST_CASE("a run that is held back does not come nearer to its deadline") {
  Alone alone(std::chrono::hours(1), 0.05);
  TwoRuns runs(alone);
  alone.engine.drive(runs.urgent);
  REQUIRE_THROWS_AS(rethrow_error(runs.urgent), Error);
  runs.send(0);
  alone.engine.drive(runs.low);
  rethrow_error(runs.low);
  REQUIRE(runs.low_value == 7);
}

TEST_CASE("a run past its deadline ends, naming what it waited for; others go on") {
  Alone alone;
  std::vector<int> order;
  int value = 0;
  Run run;
  run.name = "lonely";
  run.tag = 3;
  run.root = note_when_received(alone.channel(run), value, order, 0);
  alone.engine.start(run);
  alone.engine.drive(run);
  try {
    rethrow_error(run);
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_TIMEOUT);
    REQUIRE_THAT(error.what(), ContainsSubstring("lonely, run 1: announce; awaits [receive of 4 bytes from rank 0, tag 3]"));
  }
  REQUIRE(order.empty());
  REQUIRE(alone.engine.dump().empty());
}

TEST_CASE("a caller that computes past the deadline has not been waiting") {
  Alone alone;
  std::vector<int> order;
  int value = 0;
  Run run;
  run.root = note_when_received(alone.channel(run), value, order, 0);
  alone.engine.start(run);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // twice the deadline
  REQUIRE_FALSE(alone.engine.poll());
  const int number = 7;
  const Request send = alone.transport->send(&number, sizeof number, 0, 0);
  alone.engine.drive(run);
  rethrow_error(run);
  REQUIRE(value == 7);
  REQUIRE(alone.transport->test(send));
}

namespace {

/// Exchanges in memory that ranks share.
struct Meeting final : Completion {
  bool reached() override { return true; }
  [[nodiscard]] bool awaits_peers() const noexcept override { return true; }
};

task<void> meet(Channel channel, Meeting& meeting, Clock::time_point begin) {
  const StageScope outer = channel.stage(Stage::exchange, begin);
  const StageScope inner = channel.stage(Stage::announce);  // not timed: nobody observes the details
  co_await channel.done(meeting);
}

}  // namespace

TEST_CASE("a run that exchanges in shared memory first does so when the stage around that began") {
  Alone alone;
  Meeting meeting;
  Run run;
  const Clock::time_point begin = Clock::now();
  run.root = meet(alone.channel(run), meeting, begin);
  alone.engine.start(run);
  alone.engine.drive(run);
  REQUIRE(run.first_message == begin);
}

TEST_CASE("a pause between two runs is not part of the next one's deadline") {
  Alone alone;
  std::vector<int> order;
  int value = 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // half the deadline
  Run run;
  run.root = note_when_received(alone.channel(run), value, order, 0);
  alone.engine.start(run);
  alone.engine.poll();
  REQUIRE(run.waited.count() < 0.01);
  const int number = 7;
  const Request send = alone.transport->send(&number, sizeof number, 0, 0);
  alone.engine.drive(run);
  REQUIRE(alone.transport->test(send));
}

task<void> note_when_opened(Channel channel, const bool& gate, const Run& keeper) { co_await channel.opened(gate, keeper); }

TEST_CASE("a run at a gate has its keeper's deadline while that is in flight, and one of its own when it is lost") {
  Alone alone;
  std::vector<int> order;
  int value = 0;
  bool gate = false;
  Run keeper, waiting;
  keeper.tag = 1;
  waiting.tag = 2;
  keeper.root = note_when_received(alone.channel(keeper), value, order, 0);
  waiting.root = note_when_opened(alone.channel(waiting), gate, keeper);
  alone.engine.start(keeper);
  alone.engine.start(waiting);
  alone.engine.drive(keeper);  // its own deadline ends it, and opens nothing
  REQUIRE_THROWS_AS(rethrow_error(keeper), Error);
  REQUIRE_FALSE(waiting.finished);
  alone.engine.drive(waiting);
  REQUIRE_THROWS_AS(rethrow_error(waiting), Error);
}

TEST_CASE("a notice ends the run it is about, not the one before, and not one that gets on") {
  InprocJob job(2, 0);
  const auto here = job.transport(0), there = job.transport(1);
  Engine engine(*here, 3600);
  Topology topology{std::vector<Location>(2), 0};
  TrafficCount traffic;
  Notice notice;
  notice.tag = 5;
  notice.number = 2;
  notice.status = WEIR_ERR_MEMORY;
  notice.set_text("no memory there");
  there->notify(notice);
  const auto receive = [&](Run& run, int& value) -> task<void> {
    const Channel channel(engine, topology, run, traffic);
    return [](Channel c, int& v) -> task<void> { co_await c.done(c.receive(&v, sizeof v, 1, Traffic::control)); }(channel, value);
  };
  Run run;
  run.tag = 5;
  int value = 0;
  run.root = receive(run, value);
  engine.start(run);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    engine.poll();
  }
  REQUIRE_FALSE(run.finished);
  const int number = 7;
  const Request send = there->send(&number, sizeof number, 0, 5);
  engine.drive(run);
  rethrow_error(run);
  REQUIRE((value == 7 && there->test(send)));
  run.root = receive(run, value);
  engine.start(run);
  engine.drive(run);
  try {
    rethrow_error(run);
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_MEMORY);
    REQUIRE(std::string(error.what()) == "no memory there");
  }
  REQUIRE(run.broken);
}

/// Notes when stages began and ended, in the order of their ends.
struct StageTimes final : Observer {
  void stage(const RunInfo& /*run*/, std::string_view /*name*/, Time begin, Time end) noexcept override {
    times.emplace_back(begin, end);
  }
  void end(const RunInfo& run) noexcept override { ended = run.ended; }
  std::vector<std::pair<Time, Time>> times;
  Time ended{};
};

task<void> two_adjoining_stages_and_one(Channel channel, Clock::time_point& reopened) {
  StageScope stage = channel.stage(Stage::announce);
  stage.next(Stage::sum);
  stage.end();
  for (reopened = Clock::now(); Clock::now() == reopened;) {
  }
  reopened = Clock::now();
  stage.next(Stage::allgatherv);
  co_return;
}

TEST_CASE("a stage begins where the one before it ended only if that was open until then") {
  Alone alone;
  StageTimes observer;
  alone.engine.add_observer(observer);
  Run run;
  Clock::time_point reopened;
  run.root = two_adjoining_stages_and_one(alone.channel(run), reopened);
  alone.engine.start(run);
  REQUIRE(run.finished);
  REQUIRE(observer.times.size() == 3);
  REQUIRE(observer.times[1].first == observer.times[0].second);
  REQUIRE(observer.times[2].first >= reopened);
  REQUIRE(observer.ended >= observer.times[2].second);
}

TEST_CASE("messages of one peer and tag arrive in the order sent, whichever receive is tested first") {
  InprocJob job(2, 99);
  const auto a = job.transport(0), b = job.transport(1);
  const int one = 1, two = 2;
  int first = 0, second = 0;
  const Request s1 = a->send(&one, sizeof one, 1, 0), s2 = a->send(&two, sizeof two, 1, 0);
  const Request r1 = b->receive(&first, sizeof first, 0, 0), r2 = b->receive(&second, sizeof second, 0, 0);
  REQUIRE_FALSE(b->test(r2));
  while (!b->test(r1)) {
  }
  while (!b->test(r2)) {
  }
  REQUIRE((first == 1 && second == 2));
  REQUIRE((a->test(s1) && a->test(s2)));
}

TEST_CASE("a message of another size than agreed is an error") {
  InprocJob job(2, 0);
  const auto a = job.transport(0), b = job.transport(1);
  const int number = 1;
  long place = 0;
  const Request send = a->send(&number, sizeof number, 1, 0);
  const Request receive = b->receive(&place, sizeof place, 0, 0);
  REQUIRE_THROWS_AS(b->test(receive), Error);
  (void)send;
}

}  // namespace weir::test
