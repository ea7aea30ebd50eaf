// tracer.hpp: what a rank did and when, in a file that Perfetto and chrome://tracing open (the Trace Event Format's JSON array,
// whose last bracket may be missing).
//
// The file has a row for each plan and table call, with its runs and their stages; a row for the caller's waiting; a track for the
// messages to and from each peer; counters of bytes by level. Events go into a ring, which the tracer's thread writes to the file:
// tracing allocates nothing while plans run. If that thread falls behind, events are left out and counted.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <weir/observer.hpp>

#include "observe/identity.hpp"

namespace weir {

/// Two times between which all ranks were in one collective: `entered` is before any rank left it.
struct ClockRound {
  std::int64_t entered = 0, left = 0;  ///< nanoseconds of this rank's steady clock
};

/// Writes a trace. Belongs to one thread at a time, as its communicator does.
class Tracer final : public Observer {
 public:
  static constexpr int caller_row = 0, setup_row = 1;

  /// Makes `folder` and the file in it. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  Tracer(const std::string& folder, const Identity& identity);
  /// Calls finish().
  ~Tracer() override;
  /// Writes what there is, and the file's end; later events are dropped. At the end of the process this is called for tracers that
  /// are kept until then, after runs that broke off.
  void finish() noexcept;

  /// Sets the rounds by which traces of several ranks are put on one clock.
  void set_clock_rounds(const std::vector<ClockRound>& rounds);
  /// Records a run, or something like one, that has ended.
  void run(const RunInfo& run, Time end) noexcept;

  void begin(const RunInfo& run) noexcept override;
  void stage(const RunInfo& run, std::string_view name, Time begin, Time end) noexcept override;
  void message(const RunInfo& run, const MessageInfo& message) noexcept override;
  void message_done(const RunInfo& run, int slot) noexcept override;
  void awaited(const RunInfo& run, int rank, Time begin, Time end) noexcept override;
  void end(const RunInfo& run) noexcept override;
  void wait(const RunInfo& run, Time begin, Time end) noexcept override;
  void tested(const RunInfo& run, double seconds) noexcept override;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  enum class Kind : std::uint8_t { run, failed_run, stage, wait, tested, send, receive, awaited, sent };
  struct Event {
    Kind kind;
    Level level = Level::self;
    std::int32_t row = 0, peer = -1;
    std::int64_t number = 0;  // run, bytes or nanoseconds
    Time begin, end;
    std::string_view stage{};
  };

  /// Returns the row of a run's plan or table call. Names the row the first time.
  [[nodiscard]] int row_of(const RunInfo& run) noexcept;
  void name_row(int row, std::string_view name);
  void put(const Event& event) noexcept;
  void write_out();
  void write_pending();
  void append(const Event& event);
  void flush();

  std::string path_;
  int pid_;  // of the rank's process in the file, from 1 on: viewers take 0 for no process
  Time start_;
  int file_ = -1;
  off_t written_ = 0;

  static constexpr std::size_t capacity = std::size_t{1} << 15;
  std::vector<Event> ring_;
  std::atomic<std::size_t> put_{0}, taken_{0};
  std::atomic<std::int64_t> left_out_{0};
  std::vector<Event> posted_;                     // by slot
  std::vector<bool> named_;                       // rows
  std::array<std::int64_t, level_count> sent_{};  // bytes
  std::int64_t messages_ = 0;                     // written

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::vector<std::string> rows_, lines_;  // names of rows; lines to be written before further events
  std::string buffer_;
  std::thread writer_;
};

}  // namespace weir
