// table.hpp: an embedding table on one rank: its part, its batches, and the three calls that can be in flight on it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>
#include <weir/embedding.hpp>

#include "base/error_report.hpp"
#include "communicator/asynchronous_call.hpp"
#include "embedding/batch.hpp"
#include "embedding/row_exchange.hpp"

namespace weir::embedding {

/// Returns whether `rate` can step rows, which are float32.
[[nodiscard]] bool is_learning_rate(double rate);

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, and Error(WEIR_ERR_MEMORY) if values and the
/// optimizer's state alone need more than this node has.
void check_config(const EmbeddingConfig& config, const Topology& topology);

/// Agrees on a configuration. Collective. Throws the same on every rank: what check_config() throws on any, or
/// Error(WEIR_ERR_MISMATCH) naming what differs.
[[nodiscard]] detail::Lease agree_on_config(detail::CommunicatorState& comm, const EmbeddingConfig& config);

/// Agrees that there is memory. Collective. `bytes`: what this rank's table has allocated and not touched yet. Throws the same
/// Error(WEIR_ERR_MEMORY) on every rank if the ranks of any node need more than the node has.
void agree_on_memory(detail::CommunicatorState& comm, const EmbeddingConfig& config, std::int64_t bytes);

}  // namespace weir::embedding

namespace weir::detail {

/// One of prefetch, lookup, update.
class EmbeddingCall final : public AsynchronousCall {
 public:
  /// `ranks`: 0 for a call that shares no cards.
  EmbeddingCall(std::shared_ptr<CommunicatorState> communicator, std::string name, int priority, int tag, int ranks)
      : AsynchronousCall(std::move(communicator), std::move(name), priority, tag),
        cards(static_cast<std::size_t>(ranks)),
        scratch_(cards.size()) {}
  using AsynchronousCall::launch;

  /// Gathers all ranks' cards. Returns the lowest rank that has an error, or -1.
  task<int> share(embedding::CallCard card);
  [[nodiscard]] std::int64_t memory_bytes() const { return embedding::bytes_of(cards) + embedding::bytes_of(scratch_); }

  std::vector<embedding::CallCard> cards;

 private:
  std::vector<embedding::CallCard> scratch_;
};

[[nodiscard]] inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Opens gates when a call ends, in any way.
template <std::size_t N>
class OpenAtEnd {
 public:
  explicit OpenAtEnd(std::array<bool*, N> gates) : gates_(gates) {}
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;
  ~OpenAtEnd() {
    for (bool* gate : gates_) *gate = true;
  }

 private:
  std::array<bool*, N> gates_;
};

/// Words for a call's errors: what it does, "looks up", and what its array must hold, "one row for each id".
struct CallWords {
  const char* does;
  const char* array;
};

/// Throws the error of a CUDA failure on `rank` in the part of a call that does not wait for other ranks.
[[noreturn]] void throw_device_failed(std::string_view table, int rank);

/// Returns whether messages between two nodes travel as one, the same on every rank. Collective.
[[nodiscard]] bool routes_by_node(CommunicatorState& comm, const EmbeddingConfig& config);

/// The state of an EmbeddingTable. Call fill() before anything else. A batch moves from `next_` (prefetched) to `current_` (looked
/// up) to `updating_`.
class EmbeddingState {
 public:
  using CallIds = embedding::CallIds;

  /// Allocates everything, but does not touch what grows with the table or the batch. `by_node`: messages between two nodes travel
  /// as one. The tags of the lease are for prefetch, lookup, update, and for the wait for ids, which sends nothing.
  EmbeddingState(std::shared_ptr<CommunicatorState> comm, const EmbeddingConfig& config, Lease lease, bool by_node);
  /// Fills the table with initial values.
  void fill();

  void start_lookup(CallIds ids, std::span<float> vectors, void* stream);
  void start_prefetch(CallIds ids, void* stream);
  void start_update(std::span<const float> gradients, void* stream);
  void set_learning_rate(double learning_rate);
  void export_rows(std::int64_t first, std::int64_t count, std::span<float> values);
  void import_rows(std::int64_t first, std::int64_t count, std::span<const float> values);

  [[nodiscard]] AsynchronousCall& prefetch() { return prefetch_; }
  [[nodiscard]] const std::shared_ptr<CommunicatorState>& communicator() const { return lookup_.comm; }
  [[nodiscard]] AsynchronousCall& lookup() { return lookup_; }
  [[nodiscard]] AsynchronousCall& update() { return update_; }
  /// Visits the values and optimizer's state of this rank's rows, and what the next update needs. A batch that has been looked up
  /// or prefetched is not part of it: a restored table gives up its own batches, and needs a new lookup. Throws
  /// Error(WEIR_ERR_BUSY) while a call is in flight. Otherwise as PlanImpl::visit_state.
  void visit_state(StateVisitor& visitor);
  /// Ends the table for its owner. Calls in flight are finished for the other ranks, and deliver nothing any more. Otherwise as
  /// detail::retire.
  [[nodiscard]] bool retire() noexcept;
  [[nodiscard]] const EmbeddingConfig& config() const { return config_; }
  [[nodiscard]] const EmbeddingStatistics& statistics();
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Returns the bytes of host memory that fill() or the first calls touch for the first time: the system may lack them.
  [[nodiscard]] std::int64_t untouched_bytes() const;

 private:
  using Batch = embedding::Batch;
  using CallCard = embedding::CallCard;
  using CallError = embedding::CallError;

  /// The state that is kept between calls, besides the rows.
  struct State {
    double learning_rate = 0;
    std::int64_t steps = 0;  ///< updates

    void visit(StateVisitor& visitor);
  };
  /// What update() passes to its coroutine.
  struct Step {
    CallCard card;  ///< its `place` is the number of elements of the gradients
    Batch* next;    ///< the prefetched batch, which may not be gathered yet
    double learning_rate;
    std::int64_t lookups;  ///< the number of lookups when it was called
  };
  /// A range of rows, for export and import.
  struct RowRange {
    std::int64_t first = 0, count = 0;
    CallCard card;
  };

  [[nodiscard]] CallIds ids_on_host(CallIds ids, void* stream);
  task<void> run_ids_arrival(Completion* ready);
  CallError device_failed(const Error& error);

  // A call changes the table, gates included, only once its coroutine runs, because there may be no memory for the coroutine's
  // frame. It reads the ids before the first suspension.
  task<void> run_prefetch(CallIds ids);
  task<void> run_lookup(CallIds ids, std::span<float> vectors, void* stream);
  CallCard begin_lookup(const CallIds& ids, std::span<float> vectors, void* stream);
  task<void> run_update(Step step);
  task<void> run_export(RowRange range, float* values);
  task<void> run_import(RowRange range, const float* values);

  task<void> share_cards(Channel channel, CallWords call, CallCard card);
  CallError coalesce(const float* gradients);
  task<bool> agree_on_step(Channel channel, const Step& step);
  [[noreturn]] void throw_update_error(ErrorReport report) const;
  static void check_gathering(const Batch& batch);
  task<void> wait_for_rows(Channel channel, const Batch& batch);
  task<void> list_tokens(Channel channel, const Batch& batch);
  task<std::int64_t> gather_range(Channel channel, const char* does, RowRange range, std::int64_t done, std::int64_t& most);
  template <class Body>
  void run_on_range(std::int64_t first, std::int64_t count, std::span<const float> values, const Body& body);
  void finish_update();
  void hurry_update();

  void mark_delayed(bool pending);
  [[nodiscard]] bool is_delayed(std::span<const std::uint32_t> positions) const;
  [[nodiscard]] std::int64_t delayed_rows_of_all() const;

  std::shared_ptr<CommunicatorState> comm_;
  Lease lease_;
  EmbeddingConfig config_;
  const embedding::TableExchange& exchange_;
  embedding::Partition partition_;
  embedding::RowExchangeSetup setup_;
  std::unique_ptr<embedding::RowSpace> host_, space_;  // host_ for the caller's arrays of ranges; space_ for the table
  embedding::Slice slice_;
  embedding::RowFetch fetch_;
  embedding::RowDelivery delivery_;
  std::optional<embedding::DenseDelivery> dense_;
  std::unique_ptr<embedding::RowWork> token_work_;
  std::unique_ptr<CallerMemory> lookup_caller_, update_caller_;
  HostPointers range_memory_;

  std::unique_ptr<Batch> next_, current_, updating_, spare_;
  const Batch* foreseen_ = nullptr;                // the batch that the update in flight takes as the next one, until it has split
  bool next_known_ = false;                        // a batch has been prefetched, and no lookup has come since
  bool current_ready_ = false;                     // looked up, not updated yet
  std::int64_t lookups_ = 0, prefetches_ = 0;      // numbers of calls
  std::array<std::uint64_t, 10> step_words_{};     // of an update's announcement
  const std::uint32_t* rows_of_tokens_ = nullptr;  // of the batch looked up last
  embedding::GroupLists token_groups_{};           // of the same batch; without keys
  float* coalesced_;                               // gradients of the batch's distinct rows
  Buffer<std::uint64_t> marks_, pending_;          // one bit per row: scratch of splits, and rows whose gradient is delayed
  State state_;
  bool has_owner_ = true;
  bool half_applied_ = false;  // an update is under way, or has broken off
  bool hurried_ = false;       // a caller waits for all of the update in flight
  EmbeddingStatistics statistics_;
  TrafficCount batch_traffic_;  // of the last lookup and its prefetch

  // Gates between the calls.
  bool split_ = true, prior_applied_ = true, updated_ = true;
  EmbeddingCall prefetch_, lookup_, update_;
  EmbeddingCall ids_arrival_;  // not a call of the caller's: waits for ids from a GPU
};

}  // namespace weir::detail
