#include "sparse_layer.hpp"

namespace language_model {

SparseLayer::SparseLayer(const weir::Communicator& comm, const weir::EmbeddingConfig& config, StallClock& clock)
    : clock_(clock), table_(comm, config), vectors_(static_cast<std::size_t>(config.largest_batch * config.width)) {}

void SparseLayer::look_up(std::span<const std::int32_t> ids) {
  const Stopwatch watch(clock_.stall);
  looked_up_ = static_cast<std::int64_t>(ids.size());
  const auto vectors = std::span(vectors_).first(ids.size() * static_cast<std::size_t>(table_.config().width));
  lookup_ = table_.lookup(ids, vectors);
}

std::span<const float> SparseLayer::rows() {
  const Stopwatch watch(clock_.stall);
  lookup_->wait();
  return std::span(vectors_).first(static_cast<std::size_t>(looked_up_ * table_.config().width));
}

void SparseLayer::prefetch(std::span<const std::int32_t> ids) {
  const Stopwatch watch(clock_.stall);
  prefetch_ = table_.prefetch(ids);
}

void SparseLayer::update(std::span<const float> gradients) {
  drain();
  count_step();
  const Stopwatch watch(clock_.stall);
  update_ = table_.update(gradients);
}

void SparseLayer::drain() {
  const Stopwatch watch(clock_.stall);
  if (update_) update_->wait();
}

void SparseLayer::settle() {
  drain();
  const Stopwatch watch(clock_.stall);
  if (prefetch_) prefetch_->wait();
}

void SparseLayer::add_to(weir::Checkpoint& checkpoint) {
  static_assert(sizeof tally_ % sizeof(double) == 0);
  checkpoint.add(table_.config().name, table_);
  checkpoint.add_local(table_.config().name + ".tally", std::span(&tally_.bytes_sent, sizeof tally_ / sizeof(double)));
}

void SparseLayer::count_step() {
  // These are the lookup of this step and the update of the previous step, which has ended only now.
  const weir::EmbeddingStatistics& statistics = table_.statistics();
  tally_.bytes_sent += static_cast<double>(statistics.id_bytes_sent + statistics.lookup_bytes_sent +
                                           statistics.gradient_bytes_sent + statistics.control_bytes_sent);
  tally_.tokens += static_cast<double>(statistics.tokens);
  tally_.distinct += static_cast<double>(statistics.distinct_rows);
  tally_.prior += static_cast<double>(statistics.prior_rows);
}

std::vector<float> SparseLayer::values() {
  const weir::EmbeddingConfig& config = table_.config();
  std::vector<float> values(static_cast<std::size_t>(config.rows * config.width));
  table_.export_rows(0, config.rows, values);
  return values;
}

void SparseLayer::make_progress() {
  const Stopwatch watch(clock_.progress);
  if (lookup_) lookup_->test();
}

}  // namespace language_model
