// staged_allreduce.hpp: an algorithm for host memory used from CUDA memory: entries go through pinned memory both ways.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "collectives/allreduce.hpp"
#include "cuda/runtime.hpp"

namespace weir {

template <class T>
class StagedAllreduce final : public SparseAllreduce<T> {
 public:
  /// `largest_update` bounds the entries of an update of `algorithm`.
  StagedAllreduce(std::unique_ptr<SparseAllreduce<T>> algorithm, const ExchangeSpec& spec, std::int64_t largest_update)
      : algorithm_(std::move(algorithm)),
        stream_(spec.stream),
        local_(spec.largest_local),
        staging_(largest_update),
        update_(largest_update),
        undelivered_(most_undelivered(spec)) {
    runs_.reserve(64);
  }

  void reset() override { algorithm_->reset(); }
  void scale(double factor) override { algorithm_->scale(factor); }
  void visit_state(StateVisitor& visitor) override { algorithm_->visit_state(visitor); }
  [[nodiscard]] Explanation explanation() const override { return algorithm_->explanation(); }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    return algorithm_->memory_bytes() + local_.bytes() + staging_.bytes() + update_.bytes() + undelivered_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, ErrorReport input_error) override {
    copy(local, local_);
    staged_.record(stream_);
    co_await channel.done(staged_);
    SparseOutcome<T> outcome = co_await algorithm_->run(channel, local_.first(local.count), k, input_error);
    if (outcome.input_error) co_return outcome;
    stage(outcome.update);
    copy(staging_.first(outcome.update.count), update_);
    outcome.update = update_.first(outcome.update.count);
    co_await upload_undelivered(channel, outcome);
    co_return outcome;
  }

 private:
  template <cuda::MemoryKind kind>
  struct Entries {
    cuda::Array<std::uint32_t, kind> indices;
    cuda::Array<T, kind> values;
    explicit Entries(std::int64_t capacity) : indices(capacity), values(capacity) {}
    [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
    [[nodiscard]] SparseVector<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
  };

  template <cuda::MemoryKind kind>
  void copy(SparseVector<T> from, const Entries<kind>& to) {
    cuda::copy(to.indices.data(), from.indices, from.count * std::int64_t{sizeof(std::uint32_t)}, stream_);
    cuda::copy(to.values.data(), from.values, from.count * std::int64_t{sizeof(T)}, stream_);
  }

  void stage(SparseVector<T> entries) {
    std::memcpy(staging_.indices.data(), entries.indices, static_cast<std::size_t>(entries.count) * sizeof(std::uint32_t));
    std::memcpy(staging_.values.data(), entries.values, static_cast<std::size_t>(entries.count) * sizeof(T));
  }

  /// Uploads the list in pieces as large as staging_.
  task<void> upload_undelivered(Channel channel, SparseOutcome<T>& outcome) {
    const SparseVector<T> list = outcome.undelivered;
    runs_.clear();
    if (list.count == 0) co_return;
    for (std::int64_t i = 1; i < list.count; ++i) {
      if (list.indices[i - 1] >= list.indices[i]) runs_.push_back(i);
    }
    runs_.push_back(list.count);
    for (std::int64_t first = 0; first < list.count; first += staging_.indices.size()) {
      const std::int64_t size = std::min(staging_.indices.size(), list.count - first);
      staged_.record(stream_);
      co_await channel.done(staged_);
      stage({list.indices + first, list.values + first, size});
      cuda::copy(undelivered_.indices.data() + first, staging_.indices.data(), size * std::int64_t{sizeof(std::uint32_t)}, stream_);
      cuda::copy(undelivered_.values.data() + first, staging_.values.data(), size * std::int64_t{sizeof(T)}, stream_);
    }
    outcome.undelivered = undelivered_.first(list.count);
    outcome.undelivered_runs = runs_;
  }

  std::unique_ptr<SparseAllreduce<T>> algorithm_;
  void* stream_;
  Entries<cuda::MemoryKind::pinned> local_, staging_;
  Entries<cuda::MemoryKind::device> update_, undelivered_;
  std::vector<std::int64_t> runs_;
  cuda::Event staged_;
};

}  // namespace weir
