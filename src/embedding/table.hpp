// table.hpp: an embedding table on one rank: its part, its batches, and the three calls that can be in flight on it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>
#include <weir/embedding.hpp>

#include "base/buffer.hpp"
#include "embedding/batch.hpp"
#include "embedding/dense_delivery.hpp"
#include "embedding/row_exchange.hpp"
#include "embedding/slice.hpp"
#include "plan/in_flight.hpp"

namespace weir::detail {

/// prefetch, lookup or update.
class EmbeddingCall final : public InFlight {
 public:
  using InFlight::InFlight;
  using InFlight::launch;
};

/// See EmbeddingTable. A batch moves on from `next_` (prefetched) to `current_` (looked up) to `updating_`.
class EmbeddingState {
 public:
  /// Collective. `tags`: of prefetch, lookup and update.
  EmbeddingState(std::shared_ptr<CommunicatorState> comm, const EmbeddingConfig& config, const std::array<int, 3>& tags);

  template <class Id>
  void start_lookup(std::span<const Id> ids, std::span<float> vectors);
  template <class Id>
  void start_prefetch(std::span<const Id> ids);
  void start_update(std::span<const float> gradients);
  void set_learning_rate(double learning_rate);
  void export_rows(std::int64_t first, std::int64_t count, std::span<float> values);
  void import_rows(std::int64_t first, std::int64_t count, std::span<const float> values);

  [[nodiscard]] InFlight& prefetch() { return prefetch_; }
  [[nodiscard]] InFlight& lookup() { return lookup_; }
  [[nodiscard]] InFlight& update() { return update_; }
  [[nodiscard]] const EmbeddingConfig& config() const { return config_; }
  [[nodiscard]] const EmbeddingStatistics& statistics();
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  using Batch = embedding::Batch;
  using CallCard = embedding::CallCard;

  /// What update() passes on to its coroutine.
  struct Step {
    embedding::CallFault fault;
    Batch* next;  ///< what has been prefetched, perhaps not gathered yet
    double learning_rate;
    Clock::time_point begin;
    std::int64_t lookups;  ///< when it was called
  };
  /// Several rows at once, of export and import.
  struct RowRange {
    std::int64_t first = 0, count = 0;
    CallCard card;
  };

  task<void> run_prefetch(Batch* batch, CallCard card);
  task<void> run_lookup(CallCard card, float* vectors);
  task<void> run_update(Step step);
  task<void> run_export(RowRange range, float* values);
  task<void> run_import(RowRange range, const float* values);

  task<void> share_cards(Channel channel, const char* what, CallCard card);
  task<bool> agree_on_step(Channel channel, const Step& step);
  task<void> wait_for_rows(Channel channel, const Batch& batch);
  task<std::int64_t> gather_range(Channel channel, Batch& batch, RowRange range, std::int64_t done, std::int64_t& most);
  [[nodiscard]] RowRange check_range(std::int64_t first, std::int64_t count, const float* values, std::size_t given) const;
  void finish_update();
  void hurry_update();

  void mark_delayed(bool pending);
  [[nodiscard]] bool is_delayed(std::span<const std::uint32_t> positions) const;
  void apply_arrived(const embedding::RowOptimizer& optimizer);
  [[nodiscard]] std::int64_t delayed_rows_of_all() const;

  std::shared_ptr<CommunicatorState> comm_;
  EmbeddingConfig config_;
  const embedding::Exchange& exchange_;
  embedding::Partition partition_;
  embedding::RowExchangeSetup setup_;
  embedding::Slice slice_;
  embedding::RowFetch fetch_;
  embedding::RowDelivery delivery_;
  std::optional<embedding::DenseDelivery> dense_;
  embedding::RowGroups arrived_groups_;

  std::unique_ptr<Batch> next_, current_, updating_, spare_;
  const Batch* foreseen_ = nullptr;  // what the update in flight takes for the next batch, until it has split
  bool next_known_ = false;          // something has been prefetched, and no lookup come since
  bool current_ready_ = false;       // looked up, not updated yet
  std::int64_t lookups_ = 0;         // calls
  std::vector<CallCard> prefetch_cards_, lookup_cards_, card_scratch_, prefetch_scratch_;
  Buffer<float> coalesced_, sums_;
  std::int64_t sum_rows_ = 1;                   // that sums_ has room for
  std::vector<std::uint64_t> marks_, pending_;  // one bit for each row: scratch of splits, and rows whose gradient is delayed
  double learning_rate_;
  std::int64_t steps_ = 0;
  bool half_applied_ = false;  // an update is on its way, or has broken off
  bool hurried_ = false;       // somebody waits for all of the update in flight
  EmbeddingStatistics statistics_;
  TrafficCount batch_traffic_;  // of the last lookup, and of its prefetch

  // Gates between the calls.
  bool split_ = true, prior_applied_ = true, updated_ = true;
  EmbeddingCall prefetch_, lookup_, update_;
};

}  // namespace weir::detail
