// dense_delivery.hpp: allreduces gradients of rows as one dense array, as data-parallel training does without sparsity.
#pragma once

#include <memory>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "embedding/batch.hpp"
#include "embedding/slice.hpp"

namespace weir::embedding {

class DenseDelivery {
 public:
  DenseDelivery(const Partition& partition, const Topology& topology);
  /// Allreduces `rows`, one for each of this rank's distinct rows of the batch. step() then has all ranks' sums.
  task<void> run(Channel channel, const Batch& batch, const float* rows);
  /// Steps the rows that any rank had in its batch; returns how many. `slice` is in host memory.
  std::int64_t step(const Slice& slice, const RowOptimizer& optimizer) const;
  [[nodiscard]] std::int64_t memory_bytes() const { return sums_.bytes() + ring_->memory_bytes(); }

 private:
  std::int64_t rows_, width_;
  Buffer<float> sums_;  // rows x width, then the number of ranks that have each row, because a sum may be zero
  std::unique_ptr<DenseAllreduce<float>> ring_;
};

}  // namespace weir::embedding
