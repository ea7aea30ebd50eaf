// asynchronous_call.hpp: a collective call that can be in flight: what an Operation refers to.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/keep.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {

/// One run at a time.
class AsynchronousCall {
 public:
  /// `object`, which outlives it, is the name of what the user has made, where that is another.
  AsynchronousCall(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag,
                   std::string_view object = {});
  virtual ~AsynchronousCall();
  AsynchronousCall(const AsynchronousCall&) = delete;
  AsynchronousCall& operator=(const AsynchronousCall&) = delete;

  /// Throws Error unless somebody has waited for the last run, or when a run broke off.
  void check_startable();
  /// True once the run has finished, after one round of progress; then as finish().
  bool test();
  /// Drives everything in flight until this run has finished; then as finish().
  void wait();
  /// The same, for at most `seconds`, with one round of progress at least. Whether it has finished.
  bool wait_for(double seconds);
  /// Throws what the finished run ended with, once.
  void finish();
  /// No run is in flight, and somebody has waited for the last. What a caller may do only then is decided by this alone: a run that
  /// has finished here may be in flight on slower ranks, and all must be told the same.
  [[nodiscard]] bool waited_for() const { return run.finished && error_reported_; }
  /// The caller knows what the run in flight will end with: nobody else throws it.
  void set_error_reported() { error_reported_ = true; }

  /// That the caller has spent in test() and wait() for the last run.
  [[nodiscard]] double seconds_waited() const { return seconds_waited_; }
  [[nodiscard]] Channel channel() { return {comm->engine, comm->topology, run, traffic}; }

  std::shared_ptr<CommunicatorState> comm;
  Run run;
  TrafficCount traffic;  ///< of the last run

 protected:
  /// Starts the coroutine that body() makes. Throws nothing: a failure to make it ends the run like one in its middle.
  template <class Body>
  void launch(Body&& body) {
    const auto inside = comm->enter();
    traffic = {};
    error_reported_ = false;
    seconds_waited_ = seconds_tested_ = 0;
    try {
      const FramePool::Scope scope(comm->engine.frames());
      run.root = body();
    } catch (...) {
      comm->engine.refuse(run, std::current_exception());
      return;
    }
    comm->engine.start(run);
  }
  /// Called once for a run that has finished, before finish() throws what it ended with.
  virtual void completed() {}

 private:
  std::string name_;
  double seconds_waited_ = 0, seconds_tested_ = 0;  ///< the latter, in test() alone, are among the former
  bool error_reported_ = true;                      // what the last run ended with has been thrown
};

/// Waits for what is in flight, errors aside. False where the memory of messages must be kept until the process ends: a run broke
/// off, or cannot be ended any more.
[[nodiscard]] bool retire(AsynchronousCall& call) noexcept;

}  // namespace weir::detail
