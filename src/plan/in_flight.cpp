#include "plan/in_flight.hpp"

#include "base/error.hpp"

namespace weir::detail {

InFlight::InFlight(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag)
    : comm(std::move(communicator)), name_(std::move(name)) {
  run.name = name_;
  run.priority = priority;
  run.tag = tag;
  comm->engine.expect_runs(1);
}

InFlight::~InFlight() { comm->engine.expect_runs(-1); }

void InFlight::check_startable() {
  comm->require_running();
  if (!run.finished)
    fail(WEIR_ERR_BUSY, "'{}' is running: wait for its last start before the next, or make a second one", run.name);
  finish();
  if (run.broken)
    fail(WEIR_ERR_STATE, "'{}' cannot run again: a run ended in the middle of an exchange. Make a new communicator and start over",
         run.name);
}

bool InFlight::test() {
  comm->require_running();
  comm->engine.poll();
  if (!run.finished) return false;
  finish();
  return true;
}

void InFlight::wait() {
  if (!run.finished) comm->require_running();
  comm->engine.drive(run);
  finish();
}

void InFlight::finish() {
  if (heard_) return;
  heard_ = true;
  completed();
  if (run.error) std::rethrow_exception(std::exchange(run.error, nullptr));
}

bool retire(InFlight& in_flight) noexcept {
  try {
    in_flight.wait();
  } catch (...) {  // nobody is left to hear it
  }
  return in_flight.run.finished && !in_flight.run.broken;
}

}  // namespace weir::detail
