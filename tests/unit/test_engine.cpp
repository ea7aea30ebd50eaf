// The engine and the in-process transport: priorities, order of messages, deadlines, big messages' bookkeeping.
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
  InprocJob job{1, 0};
  std::unique_ptr<Transport> transport = job.transport(0);
  Engine engine{*transport, 0.2};
  Topology topology{std::vector<Location>(1), 0};
  TrafficCount traffic;
  Channel channel(Run& run) { return Channel(engine, topology, run, traffic); }
};

task<void> note_when_received(Channel channel, int& value, std::vector<int>& order, int name) {
  channel.step("waiting for a number");
  co_await channel.done(channel.receive(&value, sizeof value, 0, Traffic::control));
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
  REQUIRE_THROWS_AS(run.root.get(), Error);
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
    run.root.get();
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_TIMEOUT);
    REQUIRE_THAT(error.what(), ContainsSubstring("lonely: waiting for a number; awaits [receive of 4 bytes from rank 0, tag 3]"));
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
  run.root.get();
  REQUIRE(value == 7);
  REQUIRE(alone.transport->test(send));
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
