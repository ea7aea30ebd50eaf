// row_exchange.hpp: sends rows of a batch between the ranks that hold them and the ranks that look them up.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/alltoallv.hpp"
#include "embedding/batch.hpp"
#include "embedding/slice.hpp"

namespace weir::embedding {

/// What RowFetch and RowDelivery are built from.
struct RowExchangeSetup {
  const Partition* partition = nullptr;
  const Topology* topology = nullptr;
  const TableExchange* exchange = nullptr;
  std::int64_t largest_batch = 0;
  bool by_node = false;
  WireValues values = WireValues::native;

  /// The largest number of distinct rows of a rank's batch, and of all ranks' batches together in this rank's part.
  [[nodiscard]] std::int64_t most_asked() const { return std::min(largest_batch, partition->rows()); }
  [[nodiscard]] std::int64_t most_served() const { return served_by(topology->rank()); }
  [[nodiscard]] std::int64_t served_by(int rank) const {
    return topology->size() * std::min(largest_batch, partition->part(rank).rows);
  }
  /// The largest number of bytes that any rank serves, and that any rank asks for.
  [[nodiscard]] std::int64_t served_bytes() const {
    std::int64_t most = 0;
    for (int rank = 0; rank < topology->size(); ++rank) most = std::max(most, served_by(rank) * partition->part(rank).columns);
    return most * static_cast<std::int64_t>(sizeof(float));
  }
  [[nodiscard]] std::int64_t asked_bytes() const {
    return most_asked() * partition->width() * static_cast<std::int64_t>(sizeof(float));
  }
};

/// Brings vectors from the ranks that hold them to those that look them up.
class RowFetch {
 public:
  /// For rows in `space`, which must outlive it.
  RowFetch(const RowExchangeSetup& setup, RowSpace& space);

  /// Returns the list of the space that deliver() needs: for each token of the batch the index of its row.
  [[nodiscard]] std::span<const std::uint32_t> rows_of_tokens(const Batch& batch) const;
  /// Brings the rows of `batch` here. The batch has been gathered and not been split.
  task<void> fetch(Channel channel, const Batch& batch, const Slice& slice);
  /// Sets vectors[token] = its row, after fetch(); `vectors` is the caller's. `token_rows` is the list of rows_of_tokens().
  void deliver(const Batch& batch, const Slice& slice, const std::uint32_t* token_rows, RowCaller& caller, float* vectors);
  /// Does both for `vectors` in host memory, where `host` works; values are exact.
  task<void> export_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, float* vectors);
  /// Returns the bytes of the arrays that do not belong to the space.
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  task<void> bring(Channel channel, const Batch& batch, const Slice& slice, WireValues values);
  void serve(const Batch& batch, const Slice& slice, WireValues values);
  void expect(const Batch& batch, WireValues values);
  void expand(RowSpace& space, const Batch& batch, const std::uint32_t* row_of_token, WireValues values, float* vectors);

  RowExchangeSetup setup_;
  RowSpace& space_;
  std::unique_ptr<RowWork> work_;
  std::unique_ptr<Alltoallv> alltoallv_;
  std::vector<std::int64_t> out_bytes_, in_bytes_;
  Buffer<std::uint32_t> served_;              // rows of this rank's part, those for rank 0 first
  std::byte *out_ = nullptr, *in_ = nullptr;  // null if rows are read in the slice
  float* widened_ = nullptr;                  // null if what arrives is read where it is
};

/// Sends gradients of rows from the ranks that looked them up to the ranks that hold them.
class RowDelivery {
 public:
  /// For rows in `space`, which must outlive it.
  RowDelivery(const RowExchangeSetup& setup, RowSpace& space);

  /// Sends the gradients of one part of the batch. `rows`, in the space, has one row for each of this rank's distinct rows,
  /// ascending by position. Returns when what all ranks send for this rank's part of the table has arrived.
  task<void> run(Channel channel, const Batch& batch, bool is_prior, const float* rows);
  /// Sums what has arrived for each row, in rank order, and steps the row; returns the number of rows.
  std::int64_t step(const Slice& slice, const RowOptimizer& optimizer);

  /// Replaces values of the slice, exactly, by those of a batch without duplicates that has been split. `rows`, one for each of its
  /// tokens, is in host memory, where `host` works.
  task<void> import_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, const float* rows);
  /// Returns the bytes of the arrays that do not belong to the space.
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  /// The rows of this rank that are sent, and the space that packs them: `places` is a list of that space.
  struct Source {
    RowSpace& space;
    const float* rows;
    const std::uint32_t* places;
  };
  task<void> exchange(Channel channel, const Batch& batch, bool is_prior, Source source, WireValues values);
  void expect(const Batch& batch, bool is_prior, std::int64_t value_bytes);
  void send_parts(const Batch& batch, bool is_prior, const Source& source, WireValues values);
  task<void> alltoall(Channel channel, WireValues values);
  task<void> allgather(Channel channel, WireValues values);

  RowExchangeSetup setup_;
  RowSpace& space_;
  std::unique_ptr<RowWork> work_;
  std::unique_ptr<Alltoallv> alltoallv_;  // null if every rank holds everything
  std::vector<std::int64_t> out_bytes_, in_bytes_, offset_;
  std::byte *out_ = nullptr, *in_ = nullptr;
  float* widened_ = nullptr;        // null if what arrives is read where it is
  const float* arrived_ = nullptr;  // rows for this rank's part, in rank order; a row may occur once for every rank
  Buffer<std::uint32_t> keys_;      // the rows of this rank's part that these are
  std::int64_t key_count_ = 0;
  RowGroups groups_;
};

}  // namespace weir::embedding
