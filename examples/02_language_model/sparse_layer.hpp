// A weir::EmbeddingTable in the training loop: its operations in flight, its arrays, and what they have cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>
#include <weir/checkpoint.hpp>
#include <weir/embedding.hpp>

#include "stall_clock.hpp"

namespace language_model {

/// Summed over steps, on this rank.
struct TableTally {
  double bytes_sent = 0;
  double tokens = 0;    ///< rows looked up
  double distinct = 0;  ///< of them, without duplicates: what is sent
  double prior = 0;     ///< of those, what the next batch waits for
};

class SparseLayer {
 public:
  /// Collective. Time that it blocks is added to `clock`, which must outlive it.
  SparseLayer(const weir::Communicator& comm, const weir::EmbeddingConfig& config, StallClock& clock);

  /// All collective. look_up returns at once; rows() waits for it.
  void look_up(std::span<const std::int32_t> ids);
  [[nodiscard]] std::span<const float> rows();
  void prefetch(std::span<const std::int32_t> ids);
  /// Waits for the update before and starts this one.
  void update(std::span<const float> gradients);
  /// Waits for the update in flight, if any.
  void drain();
  /// Waits for everything in flight.
  void settle();
  void add_to(weir::Checkpoint& checkpoint);
  /// Everything in the table. Waits.
  [[nodiscard]] std::vector<float> values();

  /// Makes progress on everything that is in flight anywhere.
  void make_progress();
  [[nodiscard]] const TableTally& tally() const { return tally_; }

 private:
  void count_step();

  StallClock& clock_;
  weir::EmbeddingTable table_;
  std::vector<float> vectors_;
  std::int64_t looked_up_ = 0;
  std::optional<weir::Operation> lookup_, prefetch_, update_;
  TableTally tally_;
};

}  // namespace language_model
