// sparse_layer.hpp: a weir::EmbeddingTable in the training loop, with its operations in flight, its arrays and its costs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>
#include <weir/checkpoint.hpp>
#include <weir/embedding.hpp>

#include "stall_clock.hpp"

namespace language_model {

/// Counts of this rank, summed over steps.
struct TableTally {
  double bytes_sent = 0;
  double tokens = 0;    ///< rows looked up
  double distinct = 0;  ///< distinct rows among `tokens`: the rows sent
  double prior = 0;     ///< rows among `distinct` that the next batch waits for
};

class SparseLayer {
 public:
  /// Collective. The layer adds the time in which it blocks to `clock`, which must outlive it.
  SparseLayer(const weir::Communicator& comm, const weir::EmbeddingConfig& config, StallClock& clock);

  /// All functions down to values() are collective. look_up() returns at once; rows() waits for it.
  void look_up(std::span<const std::int32_t> ids);
  [[nodiscard]] std::span<const float> rows();
  void prefetch(std::span<const std::int32_t> ids);
  /// Waits for the previous update and starts this one.
  void update(std::span<const float> gradients);
  /// Waits for the update in flight, if any.
  void drain();
  /// Waits for everything in flight.
  void settle();
  void add_to(weir::Checkpoint& checkpoint);
  /// Returns the whole table. Waits for everything in flight.
  [[nodiscard]] std::vector<float> values();

  /// Makes progress on all operations in flight.
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
