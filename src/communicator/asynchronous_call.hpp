// asynchronous_call.hpp: a collective call that can be in flight: what an Operation refers to.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/keep.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {

/// A call that has one run at a time.
class AsynchronousCall {
 public:
  /// `object` is the name of what the user has made, if that differs from `name`. It must outlive the call.
  AsynchronousCall(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag,
                   std::string_view object = {});
  virtual ~AsynchronousCall();
  AsynchronousCall(const AsynchronousCall&) = delete;
  AsynchronousCall& operator=(const AsynchronousCall&) = delete;

  /// Throws Error if the last run has not been waited for, or a run broke off.
  void check_startable();
  /// Makes one round of progress. Returns false if the run has not finished; otherwise calls finish() and returns true.
  bool test();
  /// Drives everything in flight until this run has finished, then calls finish().
  void wait();
  /// Does the same for at most `seconds`, with at least one round of progress. Returns whether the run has finished.
  bool wait_for(double seconds);
  /// Throws the error that the finished run ended with, if any, once.
  void finish();
  /// Returns whether no run is in flight and the last one has been waited for. What a caller may do only then depends on nothing
  /// else: a run that has finished here may be in flight on slower ranks, and all ranks must give the same answer.
  [[nodiscard]] bool waited_for() const { return run.finished && error_reported_; }
  /// Records that the caller knows the error that the run in flight will end with: it is not thrown again.
  void set_error_reported() { error_reported_ = true; }

  /// Returns the time that the caller has spent in test() and wait() for the last run.
  [[nodiscard]] double seconds_waited() const { return seconds_waited_; }
  [[nodiscard]] Channel channel() { return {comm->engine, comm->topology, run, traffic}; }
  /// Adds the traffic of the last run to the fields of these names.
  template <class Statistics>
  void count_traffic(Statistics& sums) const {
    const auto add = [](auto& sum, const auto& part) {
      for (std::size_t level = 0; level < sum.size(); ++level) sum[level] += part[level];
    };
    sums.payload_bytes_sent += traffic.kind_sent[static_cast<std::size_t>(Traffic::payload)];
    sums.payload_bytes_received += traffic.kind_received[static_cast<std::size_t>(Traffic::payload)];
    sums.control_bytes_sent += traffic.kind_sent[static_cast<std::size_t>(Traffic::control)];
    sums.control_bytes_received += traffic.kind_received[static_cast<std::size_t>(Traffic::control)];
    add(sums.bytes_sent, traffic.bytes_sent);
    add(sums.bytes_received, traffic.bytes_received);
    add(sums.messages_sent, traffic.messages_sent);
    add(sums.messages_received, traffic.messages_received);
  }

  std::shared_ptr<CommunicatorState> comm;
  Run run;
  TrafficCount traffic;  ///< of the last run

 protected:
  /// Starts the coroutine that body() makes. Throws nothing: if it cannot be made, the run ends as if it had failed in the middle.
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
  /// Called once for a run that has finished, before finish() throws its error.
  virtual void completed() {}

 private:
  std::string name_;
  double seconds_waited_ = 0, seconds_tested_ = 0;  ///< seconds_tested_ counts test() alone, and is part of seconds_waited_
  bool error_reported_ = true;                      // the error of the last run, if any, has been thrown
};

/// Waits for what is in flight and ignores its errors. Returns false if the memory of messages must be kept until the process ends:
/// because a run broke off, or cannot be ended any more.
[[nodiscard]] bool retire(AsynchronousCall& call) noexcept;

}  // namespace weir::detail
