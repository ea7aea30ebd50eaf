#include "communicator/asynchronous_call.hpp"

#include <algorithm>
#include <exception>

#include "base/error.hpp"

namespace weir::detail {

AsynchronousCall::AsynchronousCall(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag,
                                   std::string_view object)
    : comm(std::move(communicator)), name_(std::move(name)) {
  const auto inside = comm->enter();
  run.name = name_;
  run.object = object.empty() ? run.name : object;
  run.call = comm->engine.new_call();
  run.priority = priority;
  run.tag = tag;
  comm->engine.expect_runs(1);
}

AsynchronousCall::~AsynchronousCall() {
  const auto inside = comm->enter();
  comm->engine.expect_runs(-1);
}

void AsynchronousCall::check_startable() {
  const auto inside = comm->enter();
  comm->require_running();
  if (!waited_for())
    fail(WEIR_ERR_BUSY, "'{}' is running: wait for its last start before the next, or make a second one", run.name);
  if (run.broken)
    fail(WEIR_ERR_STATE, "'{}' cannot run again: a run ended in the middle of an exchange. Make a new communicator and start over",
         run.name);
}

bool AsynchronousCall::test() {
  const auto inside = comm->enter();
  comm->require_running();
  const Clock::time_point begin = Clock::now();
  const bool was_in_flight = !run.finished;
  comm->engine.poll();
  if (was_in_flight) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds_waited_ += seconds;
    seconds_tested_ += seconds;
  }
  if (!run.finished) return false;
  finish();
  return true;
}

void AsynchronousCall::wait() {
  const auto inside = comm->enter();
  if (!run.finished) {
    comm->require_running();
    const Clock::time_point begin = Clock::now();
    comm->engine.drive(run);
    const Clock::time_point end = Clock::now();
    seconds_waited_ += std::chrono::duration<double>(end - begin).count();
    // Calls of test() are added up instead: a caller that tests again and again would fill the trace.
    for (Observer* const observer : comm->engine.detail_observers()) observer->wait(run, begin, end);
  }
  finish();
}

bool AsynchronousCall::wait_for(double seconds) {
  constexpr double long_wait = 1e-3;  // shorter waits are those of callers that ask again and again
  constexpr double longest = 1e9;
  require(seconds >= 0, "the time to wait is {} s: it must not be below 0", seconds);
  const auto inside = comm->enter();
  comm->require_running();
  const bool was_in_flight = !run.finished;
  const Clock::time_point begin = Clock::now();
  comm->engine.drive(
      run, begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, longest))));
  if (was_in_flight) {
    const Clock::time_point end = Clock::now();
    const double waited = std::chrono::duration<double>(end - begin).count();
    seconds_waited_ += waited;
    if (waited < long_wait) {
      seconds_tested_ += waited;
    } else {
      for (Observer* const observer : comm->engine.detail_observers()) observer->wait(run, begin, end);
    }
  }
  if (!run.finished) return false;
  finish();
  return true;
}

void AsynchronousCall::finish() {
  const auto inside = comm->enter();
  if (error_reported_) return;
  error_reported_ = true;
  completed();
  if (seconds_tested_ > 0) {
    for (Observer* const observer : comm->engine.detail_observers()) observer->tested(run, seconds_tested_);
  }
  if (run.error) std::rethrow_exception(std::exchange(run.error, nullptr));
}

bool retire(AsynchronousCall& call) noexcept {
  const auto inside = call.comm->enter();
  if (std::uncaught_exceptions() > 0) call.comm->engine.give_up_in_place();
  if (!call.run.finished && call.comm->transport->library().is_running()) call.comm->engine.drive_to_end(call.run);
  return call.run.finished && !call.run.broken;
}

}  // namespace weir::detail

namespace weir {

bool Operation::test() { return call_->test(); }
void Operation::wait() { call_->wait(); }
bool Operation::wait_for(double seconds) { return call_->wait_for(seconds); }

}  // namespace weir
