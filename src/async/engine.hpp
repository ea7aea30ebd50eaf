// engine.hpp: drives the collectives of one communicator. Polls what each run waits for, resumes the ready run of highest
// priority, ends runs that make no progress before their deadline.
//
// While a run gets on, runs of lower priority are not polled: the transport posts no more pieces of their messages, and the network
// drains for the urgent one. A run that waits for a GPU, or for its turn there, leaves the network alone and holds nobody back: it
// may wait for one of those. Nor does one of many that are started while the caller computes (Run::holds_at_once), until it
// receives a large message: its peers may not have come so far. A run that has not moved for a while no longer holds others back
// either, since its peers may be waiting for those: priorities may differ between ranks, and ranks may start runs at different
// times.
//
// A run that ends with anything but an AgreedError is broken: what it has posted is abandoned, and its peers, which would wait in
// vain, are told, so that their runs end with the same error. Of a timeout only those take notice who came late: the others are
// about to have one of their own, and know better what they wait for.
//
// One thread at a time. A progress thread polls aside: it does not touch arrays of callers, which may have gone, nor what needs the
// caller's GPU, and the time between its polls counts as nobody's waiting: deadlines are for those who wait.
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

/// One collective in flight. Owned by its plan; the engine refers to it from start until it has finished. Observers know it as a
/// RunInfo: its tag is that of all its messages.
struct Run : RunInfo {
  int priority = 0;       ///< larger is resumed first
  bool in_place = false;  ///< the transport reads and writes the caller's memory
  /// It holds back others from its start on; else only while it receives much: those that it waits for before may be computing.
  bool holds_at_once = true;
  bool on_gpu = false;  ///< its steps need the caller's GPU: not polled aside
  /// The part of the caller's memory that it may write until it has finished.
  std::span<const std::byte> result{};

  const StageScope* innermost = nullptr;      ///< stage
  Stage failed_in = Stage::none;              ///< where an exception left it
  std::array<double, stage_count> seconds{};  ///< in each stage, those within it included
  double awaits_seconds = 0;                  ///< for the request that it waits for now, while the engine was polled

  task<void> root;
  bool finished = true;
  bool broken = false;       ///< ended in the middle of an exchange: nothing more may run under this tag
  std::exception_ptr error;  ///< what it has ended with

  // Where it is suspended: kept by Channel's awaiter.
  std::coroutine_handle<> leaf;
  std::span<Request> awaited;
  std::size_t awaited_done = 0;
  const bool* gate = nullptr;              ///< awaited besides: another run of this rank makes it true
  const Run* gate_keeper = nullptr;        ///< that run
  Completion* completion = nullptr;        ///< awaited besides
  bool receives_much = false;              ///< a large message has been asked for
  bool awaits_caller = false;              ///< until its caller's arrays may be touched
  bool owner_gone = false;                 ///< nobody's arrays will be
  std::exception_ptr failure;              ///< thrown at the point of suspension
  bool peers_know = false;                 ///< peers know by themselves why it fails
  std::chrono::duration<double> waited{};  ///< without progress, while the engine was polled and the run not held back
  Clock::time_point counted;               ///< until when `waited` has been counted
  Clock::time_point moved;                 ///< when it last got on
};

/// Writes into callers' arrays later than any run that is in flight now.
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

  /// Receives of so many bytes are worth the network to themselves.
  static constexpr std::int64_t large_message_bytes = 64 << 10;

  /// `hold_time`: how long a run without progress still holds back those of lower priority.
  Engine(Transport& transport, double timeout_seconds, std::chrono::nanoseconds hold_time = usual_hold_time);

  /// Runs `run.root`, made with its frames in frames(), until its first suspension and keeps `run` until it has finished. Throws
  /// nothing: what goes wrong is the run's error.
  void start(Run& run) noexcept;
  /// For the end of plans and tables while an exception unwinds. Where a run in flight exchanges its caller's memory in place, that
  /// may be gone, and the transport may read and write it whenever it is called: all runs break off, their peers are told, and the
  /// transport is left alone from now on.
  void give_up_in_place() noexcept;
  /// Ends `run` with `error` before it has begun.
  void refuse(Run& run, const std::exception_ptr& error) noexcept;
  /// One round: resumes what is ready, highest priority first. True when anything moved. Whatever goes wrong is a run's error.
  bool poll() noexcept;
  /// The same for a progress thread. Runs then stay where they need their caller, or its GPU, until the next poll().
  bool poll_aside() noexcept;
  /// Whether poll_aside() has anything to do now or later, without a call of the caller's in between.
  [[nodiscard]] bool has_aside() const noexcept;
  /// Whether a run in flight, or a later writer, may still write to some of `memory`.
  [[nodiscard]] bool will_write(std::span<const std::byte> memory) const noexcept;
  /// Asked by will_write() until it is removed.
  void add_writer(const LaterWriter& writer) { writers_.push_back(&writer); }
  void remove_writer(const LaterWriter& writer) noexcept { std::erase(writers_, &writer); }
  /// From now on `run`, in flight or not, has another priority.
  void reprioritise(Run& run, int priority);
  /// Polls until `open`; gives way while nothing moves.
  void drive_until(const bool& open);
  /// Until `run` has finished.
  void drive(Run& run);
  /// Until then, or until `end`; one round at least.
  void drive(Run& run, Clock::time_point end);
  /// One round; gives way where nothing moves.
  void poll_or_idle() noexcept {
    if (!poll()) idle();
  }
  /// The same for a plan or table that ends. Arrays of other runs' callers are left alone meanwhile: they may have gone before.
  void drive_to_end(Run& run) noexcept;
  /// One round towards the end of all runs, as far as they come to it without arrays of callers; for those that have several
  /// engines to drive in turn. True: another round is needed.
  bool drive_all_on() noexcept;
  [[nodiscard]] bool leaves_arrays_alone() const noexcept { return leaves_arrays_alone_; }
  /// What every run in flight waits for, one line each.
  [[nodiscard]] std::string dump() const;
  [[nodiscard]] Transport& transport() noexcept { return transport_; }
  /// From now on it hears of every run. It must outlive the engine, or be removed.
  void add_observer(Observer& observer);
  void remove_observer(const Observer& observer) noexcept;
  /// Those that hear of stages, messages, waits and updates, too.
  [[nodiscard]] std::span<Observer* const> detail_observers() const noexcept { return detail_observers_; }
  /// The number of one more plan or table call.
  [[nodiscard]] int new_call() noexcept { return ++calls_; }
  [[nodiscard]] double timeout_seconds() const noexcept { return timeout_.count(); }
  /// From now on, also for runs in flight.
  void set_timeout(double seconds) noexcept { timeout_ = std::chrono::duration<double>(seconds); }
  /// Where the coroutines of runs have their frames.
  [[nodiscard]] FramePool& frames() noexcept { return frames_; }

  /// So many more runs may be in flight at once: starting one then allocates nothing.
  void expect_runs(int more);

 private:
  bool poll_runs(Clock::time_point now) noexcept;
  [[nodiscard]] bool left_to_caller(const Run& run) const noexcept;
  void idle() noexcept;
  void insert(Run& run) noexcept;
  void report(std::string_view why) const noexcept;
  void begin(Run& run) noexcept;
  void note_wait(Run& run, double seconds) const noexcept;
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
  std::exception_ptr out_of_memory_;  // made in time
  Clock::time_point last_poll_ = Clock::now(), notices_received_at_ = last_poll_;
  FramePool frames_;
  std::vector<Observer*> observers_, detail_observers_;  // the latter are among the former
  int calls_ = 0;
  std::int64_t begun_ = 0;  // runs
  int signals_seen_ = signals_so_far();
  std::size_t most_runs_ = 0;
  bool given_up_ = false;
  bool leaves_arrays_alone_ = false;
  bool aside_ = false;                       // within poll_aside()
  bool driven_ = false;                      // somebody waits, and has polled before
  std::vector<Run*> runs_;                   // by priority, then in order of start
  std::vector<const LaterWriter*> writers_;  // asked by will_write()
  std::vector<Notice> notices_;              // of runs that broke on other ranks
};

}  // namespace weir
