// row_exchange.hpp: sends rows of a batch between the ranks that hold them and the ranks that look them up; or all of a table.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/alltoallv.hpp"
#include "embedding/batch.hpp"
#include "embedding/row_space.hpp"

namespace weir::embedding {

/// What exchanges of rows are built from.
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

/// What both directions have: the rows that this rank asks for, those of its part that ranks ask for, and their messages.
class RowExchange {
 protected:
  /// `asks`: messages go to the holders of rows. `lists`: the most entries of all lists of the space at a time.
  RowExchange(const RowExchangeSetup& setup, RowSpace& space, bool asks, std::int64_t lists);
  /// Returns the bytes of the arrays that do not belong to the space.
  [[nodiscard]] std::int64_t memory_bytes() const;

  /// Lists the rows of a batch in this rank's part, and the bytes of all messages.
  void list_rows(const Batch& batch, Rows which, WireValues values);
  [[nodiscard]] const Part& part_of(int rank) const { return setup_.partition->part(rank); }
  [[nodiscard]] const Part& mine() const { return part_of(setup_.topology->rank()); }
  [[nodiscard]] std::int64_t width() const { return setup_.partition->width(); }
  [[nodiscard]] bool replicated() const { return setup_.exchange->replicated(); }

  RowExchangeSetup setup_;
  RowSpace& space_;
  std::unique_ptr<RowWork> work_;
  std::unique_ptr<Alltoallv> alltoallv_;                  // null if every rank holds everything
  std::vector<std::int64_t> asked_bytes_, served_bytes_;  // per rank
  Buffer<std::uint32_t> served_;                          // rows of this rank's part, those for rank 0 first
  std::int64_t served_count_ = 0;
  std::byte *asked_rows_ = nullptr, *served_rows_ = nullptr;  // messages
  float* widened_ = nullptr;                                  // null if what arrives is read where it is
};

/// Brings vectors from the ranks that hold them to those that look them up.
class RowFetch : private RowExchange {
 public:
  /// For rows in `space`, which must outlive it.
  RowFetch(const RowExchangeSetup& setup, RowSpace& space);

  /// Returns the list of the space that deliver() needs: for each token of the batch the index of its row.
  [[nodiscard]] std::span<const std::uint32_t> rows_of_tokens(const Batch& batch) const;
  /// Brings the rows of `batch` here. The batch has been gathered and not been split.
  task<void> fetch(Channel channel, const Batch& batch, const Slice& slice);
  /// Sets vectors[token] = its row, after fetch(); `vectors` is the caller's. `token_rows` is the list of rows_of_tokens().
  void deliver(const Batch& batch, const Slice& slice, const std::uint32_t* token_rows, detail::CallerMemory& caller,
               float* vectors);
  /// Does both for `vectors` in host memory, where `host` works; values are exact.
  task<void> export_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, float* vectors);
  using RowExchange::memory_bytes;

 private:
  task<void> bring(Channel channel, const Batch& batch, const Slice& slice, WireValues values);
  void expand(RowSpace& space, const Batch& batch, const std::uint32_t* row_of_token, WireValues values, float* vectors);
};

/// Sends gradients of rows from the ranks that looked them up to the ranks that hold them.
class RowDelivery : private RowExchange {
 public:
  /// For rows in `space`, which must outlive it.
  RowDelivery(const RowExchangeSetup& setup, RowSpace& space);

  /// Sends the gradients of some rows of the batch. `rows`, in the space, has one row for each of this rank's distinct rows,
  /// ascending by position. Returns when what all ranks send for this rank's part of the table has arrived.
  task<void> run(Channel channel, const Batch& batch, Rows which, const float* rows);
  /// Sums what has arrived for each row, in rank order, and steps the row; returns the number of rows.
  std::int64_t step(const Slice& slice, const RowOptimizer& optimizer);

  /// Replaces values of the slice, exactly, by those of a batch without duplicates that has been split. `rows`, one for each of its
  /// tokens, is in host memory, where `host` works.
  task<void> import_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, const float* rows);
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  /// The rows of this rank that are sent, and the space that packs them: `places` is a list of that space.
  struct Source {
    RowSpace& space;
    const float* rows;
    const std::uint32_t* places;
  };
  task<void> exchange(Channel channel, const Batch& batch, Rows which, Source source, WireValues values);
  task<void> allgather(Channel channel, WireValues values);

  std::vector<std::int64_t> offset_;
  const float* arrived_ = nullptr;  // rows for this rank's part, in rank order; a row may occur once for every rank
  RowGroups groups_;
};

/// Allreduces gradients of rows as one dense array, as data-parallel training does without sparsity. In host memory.
class DenseDelivery {
 public:
  DenseDelivery(const Partition& partition, const Topology& topology);
  /// Allreduces `rows`, one for each of this rank's distinct rows of the batch. step() then has all ranks' sums.
  task<void> run(Channel channel, const Batch& batch, const float* rows);
  /// Steps the rows that any rank had in its batch; returns how many.
  std::int64_t step(const Slice& slice, const RowOptimizer& optimizer) const;
  [[nodiscard]] std::int64_t memory_bytes() const { return sums_.bytes() + ring_->memory_bytes(); }

 private:
  std::int64_t rows_, width_;
  Buffer<float> sums_;  // rows x width, then the number of ranks that have each row, because a sum may be zero
  std::unique_ptr<DenseAllreduce<float>> ring_;
};

}  // namespace weir::embedding
