// in_flight.hpp: a collective call that can be in flight: what an Operation refers to.
#pragma once

#include <memory>
#include <string>

#include "plan/communicator.hpp"

namespace weir::detail {

/// One run at a time.
class InFlight {
 public:
  InFlight(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag);
  virtual ~InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Throws Error when a run is in flight or when one ended in the middle of an exchange.
  void check_startable() const;
  /// Drives everything in flight until this run has finished; then as finish().
  void wait();
  /// Throws what the finished run ended with, once.
  void finish();

  [[nodiscard]] Channel channel() { return {comm->engine, comm->topology, run, traffic}; }

  std::shared_ptr<CommunicatorState> comm;
  Run run;
  TrafficCount traffic;  ///< of the last run
  bool broken = false;   ///< a run ended in the middle of an exchange

 protected:
  void launch(task<void> body);
  /// Called once for a run that has finished, before finish() throws what it ended with.
  virtual void completed() {}

 private:
  bool delivered_ = true;  // what the last run threw has been thrown
};

/// Waits for what is in flight, errors aside, and lets go. A send that a dead peer never took may still read its buffers: what
/// broke off lives until the process ends.
void retire(InFlight& in_flight) noexcept;
void keep_forever(std::shared_ptr<void> owner);

}  // namespace weir::detail
