// engine.hpp: drives the collectives of one communicator. Polls what each run waits for, resumes the ready run of highest
// priority, and ends runs that make no progress before their deadline.
//
// While a run progresses, runs of lower priority are not polled. The transport then posts no more pieces of their messages, and
// the network drains for the urgent run. Three kinds of runs hold nobody back:
// - A run that waits for a GPU or its turn there, or for ranks in shared memory. It does not use the network, and may wait for a
//   run of lower priority.
// - A run that is one of many started while the caller computes, or that brings ids for a later step (Run::holds_at_once), until it
//   receives a large message: its peers may not have started it yet.
// - A run that has not moved for a while. Its peers may be waiting for other runs, because priorities may differ between ranks, and
//   ranks may start runs at different times.
//
// A run that ends with anything but an AgreedError is broken. What it has posted is abandoned, and a notice goes to its peers,
// which would wait in vain: their runs end with the same error. A notice of a timeout only ends runs that have waited for less than
// half of their own deadline. The others are about to time out themselves, with a text that says what they wait for.
//
// One thread at a time. A progress thread polls aside: it does not touch arrays of callers, which may have been destroyed, nor what
// needs the caller's GPU. The time between its polls does not count towards deadlines, because no caller waits.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/observer.hpp>

#include "async/frame_pool.hpp"
#include "async/stage.hpp"
#include "async/task.hpp"
#include "base/completion.hpp"
#include "base/signals.hpp"
#include "transport/transport.hpp"

namespace weir {

using Clock = std::chrono::steady_clock;
class StageScope;

/// One collective in flight. Its plan owns it; the engine refers to it from start until it has finished. Observers know it as a
/// RunInfo, whose tag is that of all its messages.
struct Run : RunInfo {
  int priority = 0;       ///< larger is resumed first
  bool in_place = false;  ///< the transport reads and writes the caller's memory
  /// Holds others back from its start on; if false, only once it receives a large message: its peers may be computing before.
  bool holds_at_once = true;
  bool on_gpu = false;  ///< its steps need the caller's GPU: not polled aside
  /// The part of the caller's memory that the run may write until it has finished.
  std::span<const std::byte> result{};

  const StageScope* innermost = nullptr;  ///< the innermost open stage
  /// When the last stage began or ended, or the run itself if none has yet. Unknown, the clock's epoch, if that stage was not
  /// timed, or if the run has been suspended since.
  Clock::time_point boundary;
  Stage failed_in = Stage::none;                  ///< the stage that an exception left first
  std::array<double, statistic_count> seconds{};  ///< in each stage that is_statistic(), inner stages included
  double awaits_seconds = 0;                      ///< spent on the request that it waits for now, while the engine was polled

  task<void> root;
  bool finished = true;
  bool broken = false;       ///< ended in the middle of an exchange: nothing more may run under this tag
  std::exception_ptr error;  ///< the error that it has ended with

  // The point of suspension, kept by Channel's awaiters.
  std::coroutine_handle<> leaf;
  std::span<Request> awaited;
  std::size_t awaited_done = 0;
  const bool* gate = nullptr;              ///< also awaited: another run of this rank makes it true
  const Run* gate_keeper = nullptr;        ///< that run
  Completion* completion = nullptr;        ///< also awaited
  bool receives_much = false;              ///< has posted a receive of a large message
  bool awaits_caller = false;              ///< waits until the caller's arrays may be touched
  bool owner_gone = false;                 ///< ends without touching the caller's arrays
  std::exception_ptr failure;              ///< thrown at the point of suspension
  bool peers_know = false;                 ///< peers know why it fails: no notice is sent
  std::chrono::duration<double> waited{};  ///< without progress, while the engine was polled and the run not held back
  Clock::time_point counted;               ///< until when `waited` has been counted
  Clock::time_point moved;                 ///< when it last progressed

  template <Stage stage>
  [[nodiscard]] double seconds_in() const {
    static_assert(is_statistic(stage));
    return seconds[static_cast<std::size_t>(stage)];
  }
};

/// Will write to callers' arrays later than any run that is in flight now.
class LaterWriter {
 public:
  [[nodiscard]] virtual bool will_write(std::span<const std::byte> memory) const noexcept = 0;

 protected:
  ~LaterWriter() = default;
};

class Engine {
 public:
  /// Longer than a piece of a message takes on slow networks (1 MiB at 1 Gbit/s: 8 ms), so that an urgent run stays alone while it
  /// is transferring.
  static constexpr std::chrono::milliseconds usual_hold_time{20};

  /// The size from which a receive is large: such receives have the network to themselves.
  static constexpr std::int64_t large_message_bytes = 64 << 10;

  /// `hold_time`: how long a run without progress still holds back those of lower priority.
  Engine(Transport& transport, double timeout_seconds, std::chrono::nanoseconds hold_time = usual_hold_time);

  /// Runs `run.root` until its first suspension and keeps `run` until it has finished. The frames of `run.root` must come from
  /// frames(). Throws nothing: errors become the run's.
  void start(Run& run) noexcept;
  /// For the end of plans and tables while an exception unwinds. If a run in flight exchanges its caller's memory in place, that
  /// memory may be gone, and the transport may use it at each call. All runs then break off, their peers are notified, and the
  /// transport is not called any more.
  void give_up_in_place() noexcept;
  /// Ends `run` with `error` before it has begun.
  void refuse(Run& run, const std::exception_ptr& error) noexcept;
  /// Makes one round: resumes what is ready, highest priority first. Returns true if anything moved. Errors become the runs'.
  bool poll() noexcept;
  /// Does the same for a progress thread. Runs that need their caller, or its GPU, wait for the next poll().
  bool poll_aside() noexcept;
  /// Returns whether poll_aside() can do anything, now or later, before the caller's next call.
  [[nodiscard]] bool has_aside() const noexcept;
  /// Returns whether a run in flight, or a later writer, may still write to some of `memory`.
  [[nodiscard]] bool will_write(std::span<const std::byte> memory) const noexcept;
  /// Makes will_write() ask `writer` until it is removed.
  void add_writer(const LaterWriter& writer) { writers_.push_back(&writer); }
  void remove_writer(const LaterWriter& writer) noexcept { std::erase(writers_, &writer); }
  /// Gives `run`, in flight or not, another priority from now on.
  void reprioritise(Run& run, int priority);
  /// Polls until `open` is true; gives way while nothing moves.
  void drive_until(const bool& open);
  /// Polls until `run` has finished.
  void drive(Run& run);
  /// Polls until `run` has finished, or until `end`; one round at least.
  void drive(Run& run, Clock::time_point end);
  /// Makes one round; gives way if nothing moves.
  void poll_or_idle() noexcept {
    if (!poll()) idle();
  }
  /// Polls until `run` has finished, for a plan or table that ends. Does not touch arrays of other runs' callers: they may have
  /// been destroyed before.
  void drive_to_end(Run& run) noexcept;
  /// Makes one round towards the end of all runs, as far as they get without arrays of callers; for owners of several engines,
  /// which they drive in turn. Returns true if another round is needed.
  bool drive_all_on() noexcept;
  [[nodiscard]] bool leaves_arrays_alone() const noexcept { return leaves_arrays_alone_; }
  /// Returns what every run in flight waits for, one line each.
  [[nodiscard]] std::string dump() const;
  [[nodiscard]] Transport& transport() noexcept { return transport_; }
  /// Reports every run to `observer` from now on. It must outlive the engine, or be removed.
  void add_observer(Observer& observer);
  void remove_observer(const Observer& observer) noexcept;
  /// Returns the observers that also want stages, messages, waits and updates.
  [[nodiscard]] std::span<Observer* const> detail_observers() const noexcept { return detail_observers_; }
  /// Returns the number of one more plan or table call.
  [[nodiscard]] int new_call() noexcept { return ++calls_; }
  [[nodiscard]] double timeout_seconds() const noexcept { return timeout_.count(); }
  /// Changes the deadline from now on, also for runs in flight.
  void set_timeout(double seconds) noexcept { timeout_ = std::chrono::duration<double>(seconds); }
  /// Returns the pool for frames of runs' coroutines.
  [[nodiscard]] FramePool& frames() noexcept { return frames_; }

  /// Makes room for this many more runs in flight at once, so that starting one allocates nothing.
  void expect_runs(int more);

 private:
  bool poll_runs(Clock::time_point now) noexcept;
  [[nodiscard]] bool left_to_caller(const Run& run) const noexcept;
  void idle() noexcept;
  void insert(Run& run) noexcept;
  void report(std::string_view why) const noexcept;
  void begin(Run& run) noexcept;
  void note_wait(Run& run, double seconds) const noexcept;
  void note_reached(Run& run) const noexcept;
  bool ready(Run& run);
  void resume(Run& run);
  void fail(Run& run, std::exception_ptr failure, bool peers_know) noexcept;
  void end(Run& run, const std::exception_ptr& error) noexcept;
  [[nodiscard]] std::exception_ptr broken_off(Run& run, const std::exception_ptr& error) noexcept;
  [[nodiscard]] bool held_back(std::size_t index) const;
  static void progressed(Run& run);
  void check_deadline(Run& run, Clock::time_point now) noexcept;
  void receive_notices(Clock::time_point now) noexcept;
  void record(const Notice& notice) noexcept;
  [[nodiscard]] std::exception_ptr given_up_error() const noexcept;
  [[nodiscard]] std::exception_ptr error_of(weir_status status, const char* text) const noexcept;

  Transport& transport_;
  std::chrono::duration<double> timeout_;
  std::chrono::nanoseconds hold_time_;
  std::exception_ptr out_of_memory_;  // made in the constructor
  Clock::time_point last_poll_ = Clock::now(), notices_received_at_ = last_poll_;
  FramePool frames_;
  std::vector<Observer*> observers_, detail_observers_;  // detail_observers_ is a part of observers_
  int calls_ = 0;
  std::int64_t begun_ = 0;  // runs
  int signals_seen_ = signals_so_far();
  std::size_t most_runs_ = 0;
  bool given_up_ = false;
  bool leaves_arrays_alone_ = false;
  bool aside_ = false;                       // within poll_aside()
  bool driven_ = false;                      // a caller waits, and has polled before
  std::vector<Run*> runs_;                   // by priority, then in order of start
  std::vector<const LaterWriter*> writers_;  // asked by will_write()
  std::vector<Notice> notices_;              // of runs that broke on other ranks
};

}  // namespace weir
