#include "communicator/asynchronous_call.hpp"

#include <exception>

#include "base/error.hpp"

namespace weir::detail {

AsynchronousCall::AsynchronousCall(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag)
    : comm(std::move(communicator)), name_(std::move(name)) {
  run.name = name_;
  run.priority = priority;
  run.tag = tag;
  comm->engine.expect_runs(1);
}

AsynchronousCall::~AsynchronousCall() { comm->engine.expect_runs(-1); }

void AsynchronousCall::check_startable() {
  comm->require_running();
  if (!run.finished)
    fail(WEIR_ERR_BUSY, "'{}' is running: wait for its last start before the next, or make a second one", run.name);
  finish();
  if (run.broken)
    fail(WEIR_ERR_STATE, "'{}' cannot run again: a run ended in the middle of an exchange. Make a new communicator and start over",
         run.name);
}

bool AsynchronousCall::test() {
  comm->require_running();
  comm->engine.poll();
  if (!run.finished) return false;
  finish();
  return true;
}

void AsynchronousCall::wait() {
  if (!run.finished) comm->require_running();
  comm->engine.drive(run);
  finish();
}

void AsynchronousCall::finish() {
  if (heard_) return;
  heard_ = true;
  completed();
  if (run.error) std::rethrow_exception(std::exchange(run.error, nullptr));
}

bool retire(AsynchronousCall& call) noexcept {
  if (std::uncaught_exceptions() > 0) call.comm->engine.give_up_in_place();
  if (!call.run.finished && call.comm->transport->is_running()) call.comm->engine.drive_to_end(call.run);
  return call.run.finished && !call.run.broken;
}

}  // namespace weir::detail

namespace weir {

bool Operation::test() { return call_->test(); }
void Operation::wait() { call_->wait(); }

}  // namespace weir
