// weir/observer.hpp: observers of a communicator, which hear of its runs, of their stages and messages, and for how long the caller
// waits. Weir's flight recorder, traces and metrics are observers, too.
//
//   struct Failures : weir::Observer {
//     void end(const weir::RunInfo& run) noexcept override { count += run.status != WEIR_OK ? 1 : 0; }
//     int count = 0;
//   };
//   auto failures = std::make_shared<Failures>();
//   comm.add_observer(failures);
#ifndef WEIR_OBSERVER_HPP
#define WEIR_OBSERVER_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

/// What a run has sent and received so far, by the nearest common level of the two ranks. Does not count shared memory, NCCL and
/// the MPI library's own allreduce.
struct TrafficCount {
  std::array<std::int64_t, level_count> bytes_sent{}, bytes_received{}, messages_sent{}, messages_received{};
  std::array<std::int64_t, 2> kind_sent{}, kind_received{};  ///< bytes of gradients (values and indices), and of everything else

  /// Returns the bytes sent, of both kinds.
  [[nodiscard]] std::int64_t sent() const { return kind_sent[0] + kind_sent[1]; }
  /// Returns the bytes received, of both kinds.
  [[nodiscard]] std::int64_t received() const { return kind_received[0] + kind_received[1]; }
};

/// One run of a plan, a table or another collective call. It stays at its address, and its texts stay valid, until end() has
/// returned; wait() and tested() may name it after that.
struct RunInfo {
  using Time = std::chrono::steady_clock::time_point;

  std::string_view name{};    ///< name of the plan or table call
  std::string_view object{};  ///< name of what the user has made: fused tensors make several calls; empty: a communicator's own run
  std::string_view algorithm{};     ///< name of the algorithm; empty unless it is an allreduce or the like
  std::string_view element_type{};  ///< type of the elements; empty: not known
  std::int64_t count = 0;           ///< number of elements
  int tag = 0;                      ///< number that is the same on all ranks, and free again when its plan has ended
  int call = 0;                     ///< number of the plan or table call on this rank; 0: the communicator itself
  std::int64_t id = 0;              ///< number of runs of this communicator on this rank so far, including this one
  std::int64_t number = 0;          ///< number of runs under this tag so far; the same on all ranks

  Time begun{};  ///< when it began
  /// When it first exchanged with others. If that was in memory that a node shares: when the stage of that exchange began. The
  /// clock's epoch if it has not exchanged yet.
  Time first_message{};
  std::string_view stage = "none";        ///< innermost stage now; after a failure, the one that failed
  const TrafficCount* traffic = nullptr;  ///< traffic so far; null: no messages
  int awaited_rank = -1;                  ///< rank that it waited for longest at a stretch
  double awaited_seconds = 0;             ///< length of that wait
  weir_status status = WEIR_OK;           ///< in end(): how it ended
  Time ended{};                           ///< in end(): when
};

/// A message that has been posted.
struct MessageInfo {
  int slot = 0;       ///< number that no other message in flight has
  bool sent = false;  ///< false: received
  int peer = -1;      ///< other rank; -1: all ranks, in the MPI library's own allreduce
  Level level = Level::self;
  std::int64_t bytes = 0;
};

/// An iteration of a plan or of fused tensors that has ended.
struct UpdateInfo {
  std::string_view name;   ///< name of the plan or the fused tensors
  std::int64_t iteration;  ///< number of the iteration, from 1
  double compression;      ///< bytes of the gradient over bytes of payload sent; 0: no payload was sent
  /// Estimates the residual's Euclidean norm from a sample of its entries, in some microseconds. Returns a negative number if the
  /// residual cannot be read.
  std::function<double()> residual_norm;
};

/// Hears what a communicator does. Its functions are called one at a time, by the thread that advances the runs: the caller's, or a
/// progress thread. They must return soon and must not call Weir. If runs are in flight when it is added, it hears what is left of
/// them.
class Observer {
 public:
  using Time = RunInfo::Time;
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Returns whether it wants to hear more than begin(), end() and report(). Asked once.
  [[nodiscard]] virtual bool wants_details() const noexcept { return true; }

  /// Called when a run has begun.
  virtual void begin(const RunInfo& /*run*/) noexcept {}
  /// Called when a stage has ended; stages nest. `name`, such as "split_reduce", stays valid.
  virtual void stage(const RunInfo& /*run*/, std::string_view /*name*/, Time /*begin*/, Time /*end*/) noexcept {}
  /// Called when a message has been posted.
  virtual void message(const RunInfo& /*run*/, const MessageInfo& /*message*/) noexcept {}
  /// Called when the message in `slot` is done. Messages of a run that breaks off may never be done.
  virtual void message_done(const RunInfo& /*run*/, int /*slot*/) noexcept {}
  /// Called when the run has waited for other ranks in shared memory. `rank` was the last to come.
  virtual void awaited(const RunInfo& /*run*/, int /*rank*/, Time /*begin*/, Time /*end*/) noexcept {}
  /// Called when the run has ended; run.status says how.
  virtual void end(const RunInfo& /*run*/) noexcept {}
  /// Called when the caller has waited for the run.
  virtual void wait(const RunInfo& /*run*/, Time /*begin*/, Time /*end*/) noexcept {}
  /// Called when the caller has spent `seconds` in test(), for a run that has ended.
  virtual void tested(const RunInfo& /*run*/, double /*seconds*/) noexcept {}
  /// Called when an iteration of a plan or of fused tensors has ended.
  virtual void update(const UpdateInfo& /*update*/) noexcept {}
  /// Called when a run breaks off or has timed out, or when a signal asks what is going on; `why` says which. `in_flight` says what
  /// every run waits for.
  virtual void report(std::string_view /*why*/, std::string_view /*in_flight*/) noexcept {}
};

}  // namespace weir
#pragma GCC visibility pop

#endif
