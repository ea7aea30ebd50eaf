// engine.hpp: drives the collectives of one communicator. Polls what each run waits for, resumes the ready run of highest
// priority, ends runs that make no progress before their deadline.
//
// While a run gets on, runs of lower priority are not polled: the transport posts no more pieces of their messages, and the network
// drains for the urgent one. A run that waits for a GPU, or for its turn there, leaves the network alone and holds nobody back: it
// may wait for one of those. A run that has not moved for a while no longer holds others back either, since its peers may be
// waiting for those: priorities may differ between ranks, and ranks may start runs at different times.
#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/happening.hpp"
#include "transport/transport.hpp"

namespace weir {

using Clock = std::chrono::steady_clock;

/// One collective in flight. Owned by its plan; the engine refers to it from start until it has finished.
struct Run {
  std::string name;       ///< for dumps
  int priority = 0;       ///< larger is resumed first
  int tag = 0;            ///< all messages of this run
  const char* step = "";  ///< what it is doing, for dumps; a string literal
  task<void> root;
  bool finished = true;

  // Where it is suspended: kept by Channel's awaiter.
  std::coroutine_handle<> leaf;
  std::span<Request> awaited;
  std::size_t awaited_done = 0;
  const bool* gate = nullptr;              ///< awaited besides: another run of this rank makes it true
  Happening* happening = nullptr;          ///< awaited besides
  std::exception_ptr failure;              ///< thrown at the point of suspension
  std::chrono::duration<double> waited{};  ///< without progress, while the engine was polled and the run not held back
  Clock::time_point moved;                 ///< when it last got on
};

class Engine {
 public:
  /// Longer than a piece of a message takes on slow networks (1 MiB at 1 Gbit/s: 8 ms), so that an urgent run stays alone while it
  /// is transferring.
  static constexpr std::chrono::milliseconds usual_hold_time{20};

  /// `hold_time`: how long a run without progress still holds back those of lower priority.
  Engine(Transport& transport, double timeout_seconds, std::chrono::nanoseconds hold_time = usual_hold_time)
      : transport_(transport), timeout_(timeout_seconds), hold_time_(hold_time) {}

  /// Runs `run.root` until its first suspension and keeps `run` until it has finished.
  void start(Run& run);
  /// One round: resumes what is ready, highest priority first. True when anything moved.
  bool poll();
  /// From now on `run`, in flight or not, has another priority.
  void reprioritise(Run& run, int priority);
  /// Polls until `open`; yields the processor while nothing moves.
  void drive_until(const bool& open);
  /// Until `run` has finished.
  void drive(Run& run);
  /// What every run in flight waits for, one line each.
  [[nodiscard]] std::string dump() const;
  [[nodiscard]] Transport& transport() noexcept { return transport_; }

 private:
  void insert(Run& run);
  bool ready(Run& run);
  void resume(Run& run);
  [[nodiscard]] bool held_back(std::size_t index) const;
  static void got_on(Run& run);
  void check_deadline(Run& run, std::chrono::duration<double> passed);

  Transport& transport_;
  std::chrono::duration<double> timeout_;
  std::chrono::nanoseconds hold_time_;
  Clock::time_point last_poll_ = Clock::now();
  std::vector<Run*> runs_;  // by priority, then in order of start
};

}  // namespace weir
