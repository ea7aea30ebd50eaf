#include "plan/in_flight.hpp"

#include <mutex>
#include <vector>

#include "base/error.hpp"

namespace weir::detail {

InFlight::InFlight(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag)
    : comm(std::move(communicator)) {
  run.name = std::move(name);
  run.priority = priority;
  run.tag = tag;
}

void InFlight::check_startable() const {
  if (!run.finished)
    fail(WEIR_ERR_BUSY, "'{}' is running: wait for its last start before the next, or make a second one", run.name);
  if (broken)
    fail(WEIR_ERR_STATE, "'{}' cannot run again: a run ended in the middle of an exchange. Make a new communicator and start over",
         run.name);
}

void InFlight::launch(task<void> body) {
  traffic = {};
  delivered_ = false;
  run.root = std::move(body);
  comm->engine.start(run);
}

void InFlight::wait() {
  comm->engine.drive(run);
  finish();
}

void InFlight::finish() {
  if (delivered_) return;
  delivered_ = true;
  completed();
  task<void> finished = std::move(run.root);  // gives the frame back
  try {
    finished.get();
  } catch (const Error& error) {
    broken = error.status() != WEIR_ERR_ARGUMENT && error.status() != WEIR_ERR_NON_FINITE && error.status() != WEIR_ERR_MISMATCH;
    throw;
  }
}

void retire(InFlight& in_flight) noexcept {
  try {
    in_flight.wait();
  } catch (...) {  // nobody is left to hear it
  }
}

void keep_forever(std::shared_ptr<void> owner) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(owner));
}

}  // namespace weir::detail
