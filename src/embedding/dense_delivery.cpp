#include "embedding/dense_delivery.hpp"

#include <algorithm>

#include "kernels/kernels.hpp"

namespace weir::embedding {
namespace {

ExchangeSpec spec_of(std::int64_t count, const Topology& topology) {
  ExchangeSpec spec;
  spec.count = count;
  spec.ranks = topology.size();
  spec.topology = &topology;
  return spec;
}

}  // namespace

DenseDelivery::DenseDelivery(const Partition& partition, const Topology& topology)
    : rows_(partition.rows()),
      width_(partition.width()),
      sums_(rows_ * (width_ + 1)),
      ring_(dense_ring_row.make_dense<float>(spec_of(sums_.size(), topology))) {}

task<void> DenseDelivery::run(Channel channel, const Batch& batch, const float* rows) {
  kernels::host::fill_zero(sums_.data(), sums_.size());
  const RowGroups& groups = batch.groups();
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    const std::int64_t row = groups.keys()[i];
    std::copy_n(rows + i * width_, width_, sums_.data() + row * width_);
    sums_[rows_ * width_ + row] = 1;
  }
  const StageScope stage = channel.stage(Stage::allreduce);
  co_await ring_->run(channel, sums_.data());
}

std::int64_t DenseDelivery::step(const Slice& slice, const RowOptimizer& optimizer) const {
  std::int64_t stepped = 0;
  for (std::uint32_t row = 0; row < static_cast<std::uint64_t>(rows_); ++row) {
    if (sums_[rows_ * width_ + row] == 0) continue;
    optimizer.apply(slice.state(), &row, 1, width_, sums_.data() + row * width_);
    ++stepped;
  }
  return stepped;
}

}  // namespace weir::embedding
