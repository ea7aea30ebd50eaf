// engine.hpp: drives the collectives of one communicator. Polls what each run waits for, resumes the ready run of highest
// priority, ends runs that make no progress before their deadline.
//
// While a run gets on, runs of lower priority are not polled: the transport posts no more pieces of their messages, and the network
// drains for the urgent one. A run that waits for a GPU, or for its turn there, leaves the network alone and holds nobody back: it
// may wait for one of those. A run that has not moved for a while no longer holds others back either, since its peers may be
// waiting for those: priorities may differ between ranks, and ranks may start runs at different times.
//
// A run that ends with anything but an AgreedError is broken: what it has posted is abandoned, and its peers, which would wait in
// vain, are told, so that their runs end with the same error. A timeout is not told: they have one of their own.
#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "async/frame_pool.hpp"
#include "async/task.hpp"
#include "base/happening.hpp"
#include "transport/transport.hpp"

namespace weir {

using Clock = std::chrono::steady_clock;

/// One collective in flight. Owned by its plan; the engine refers to it from start until it has finished.
struct Run {
  std::string_view name{};   ///< for dumps; outlives the run
  int priority = 0;          ///< larger is resumed first
  int tag = 0;               ///< all messages of this run
  const char* step = "";     ///< what it is doing, for dumps; a string literal
  const char* warning = "";  ///< follows the error of a run that breaks; a string literal
  task<void> root;
  bool finished = true;
  bool broken = false;       ///< ended in the middle of an exchange: nothing more may run under this tag
  std::exception_ptr error;  ///< what it has ended with
  std::int64_t number = 0;   ///< of runs under this tag so far

  // Where it is suspended: kept by Channel's awaiter.
  std::coroutine_handle<> leaf;
  std::span<Request> awaited;
  std::size_t awaited_done = 0;
  const bool* gate = nullptr;              ///< awaited besides: another run of this rank makes it true
  const Run* gate_keeper = nullptr;        ///< that run
  Happening* happening = nullptr;          ///< awaited besides
  std::exception_ptr failure;              ///< thrown at the point of suspension
  bool told = false;                       ///< peers know by themselves why it fails
  std::chrono::duration<double> waited{};  ///< without progress, while the engine was polled and the run not held back
  Clock::time_point counted;               ///< until when `waited` has been counted
  Clock::time_point moved;                 ///< when it last got on
};

class Engine {
 public:
  /// Longer than a piece of a message takes on slow networks (1 MiB at 1 Gbit/s: 8 ms), so that an urgent run stays alone while it
  /// is transferring.
  static constexpr std::chrono::milliseconds usual_hold_time{20};

  /// `hold_time`: how long a run without progress still holds back those of lower priority.
  Engine(Transport& transport, double timeout_seconds, std::chrono::nanoseconds hold_time = usual_hold_time);

  /// Runs `run.root`, made with its frames in frames(), until its first suspension and keeps `run` until it has finished. Throws
  /// nothing: what goes wrong is the run's error.
  void start(Run& run) noexcept;
  /// Ends `run` with `error` before it has begun.
  void refuse(Run& run, std::exception_ptr error) noexcept;
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
  /// Where the coroutines of runs have their frames.
  [[nodiscard]] FramePool& frames() noexcept { return frames_; }

  /// So many more runs may be in flight at once: starting one then allocates nothing.
  void expect_runs(int more);

 private:
  void insert(Run& run) noexcept;
  bool ready(Run& run);
  void resume(Run& run);
  void fail(Run& run, std::exception_ptr failure);
  void end(Run& run, std::exception_ptr error) noexcept;
  [[nodiscard]] std::exception_ptr broken_off(Run& run, const std::exception_ptr& error) noexcept;
  [[nodiscard]] bool held_back(std::size_t index) const;
  static void got_on(Run& run);
  void check_deadline(Run& run, Clock::time_point now);
  void listen(Clock::time_point now);

  Transport& transport_;
  std::chrono::duration<double> timeout_;
  std::chrono::nanoseconds hold_time_;
  std::exception_ptr out_of_memory_;  // made in time
  Clock::time_point last_poll_ = Clock::now(), listened_ = last_poll_;
  FramePool frames_;
  std::size_t most_runs_ = 0;
  std::vector<Run*> runs_;       // by priority, then in order of start
  std::vector<Notice> notices_;  // of runs that broke on other ranks
};

}  // namespace weir
