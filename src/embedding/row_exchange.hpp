// row_exchange.hpp: rows of a batch on their way between the ranks that hold them and the ranks that look them up.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/alltoallv.hpp"
#include "embedding/batch.hpp"
#include "embedding/slice.hpp"

namespace weir::embedding {

/// What both directions are built for.
struct RowExchangeSetup {
  const Partition* partition = nullptr;
  const Topology* topology = nullptr;
  const Exchange* exchange = nullptr;
  std::int64_t largest_batch = 0;
  bool by_node = false;

  /// Most distinct rows of a rank's batch, and of all ranks' batches together in this rank's part.
  [[nodiscard]] std::int64_t most_asked() const { return std::min(largest_batch, partition->rows()); }
  [[nodiscard]] std::int64_t most_served() const { return served_by(topology->rank()); }
  [[nodiscard]] std::int64_t served_by(int rank) const {
    return topology->size() * std::min(largest_batch, partition->part(rank).rows);
  }
  /// Of any rank: what it serves, and what it asks for.
  [[nodiscard]] std::int64_t served_bytes() const {
    std::int64_t most = 0;
    for (int rank = 0; rank < topology->size(); ++rank) most = std::max(most, served_by(rank) * partition->part(rank).columns);
    return most * static_cast<std::int64_t>(sizeof(float));
  }
  [[nodiscard]] std::int64_t asked_bytes() const {
    return most_asked() * partition->width() * static_cast<std::int64_t>(sizeof(float));
  }
};

/// Vectors, from holders to those who look them up.
class RowFetch {
 public:
  explicit RowFetch(const RowExchangeSetup& setup);
  /// vectors[token] = its row. `batch` has been gathered and not been split.
  task<void> run(Channel channel, const Batch& batch, Slice& slice, WireValues values, float* vectors);
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  void serve(const Batch& batch, Slice& slice, WireValues values);
  void expect(const Batch& batch, WireValues values);
  void expand(const Batch& batch, WireValues values, float* vectors);

  RowExchangeSetup setup_;
  std::unique_ptr<Alltoallv> alltoallv_;
  std::vector<std::int64_t> out_bytes_, in_bytes_;
  Buffer<std::uint32_t> served_;  // rows of my part, those for rank 0 first
  Buffer<std::byte> out_, in_;
  Buffer<float> widened_;
};

/// Gradients of rows, from those who looked them up to the holders.
class RowDelivery {
 public:
  explicit RowDelivery(const RowExchangeSetup& setup);
  /// Of one part of the batch; `rows` has one row for each of this rank's distinct ones, ascending by position. Afterwards
  /// arrived() holds what all ranks have sent for my part.
  task<void> run(Channel channel, const Batch& batch, bool is_prior, const float* rows, WireValues values);

  /// Rows of my part, in rank order; a row may be there once for every rank.
  struct Arrived {
    std::span<const std::uint32_t> rows;
    const float* values;  ///< part.columns elements each
  };
  [[nodiscard]] Arrived arrived() const { return {{keys_.data(), static_cast<std::size_t>(key_count_)}, arrived_.data()}; }
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  void expect(const Batch& batch, bool is_prior, std::int64_t value_bytes);
  void send_parts(const Batch& batch, bool is_prior, const float* rows, WireValues values);
  task<void> allgather(Channel channel, const Batch& batch, bool is_prior, const float* rows, WireValues values);

  RowExchangeSetup setup_;
  std::unique_ptr<Alltoallv> alltoallv_;  // none where every rank holds everything
  std::vector<std::int64_t> out_bytes_, in_bytes_, offset_;
  Buffer<std::byte> out_, in_;
  Buffer<float> arrived_;
  Buffer<std::uint32_t> keys_;
  std::int64_t key_count_ = 0;
};

}  // namespace weir::embedding
