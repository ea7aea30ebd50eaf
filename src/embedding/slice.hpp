// slice.hpp: what one rank holds of an embedding table.
#pragma once

#include <array>

#include "base/buffer.hpp"
#include "embedding/optimizer.hpp"
#include "embedding/partition.hpp"

namespace weir::embedding {

/// Values and optimizer's state of one part, row by row. Rows count from the part's first one.
class Slice {
 public:
  /// With the table's initial values (EmbeddingConfig::seed) and zero state.
  Slice(const EmbeddingConfig& config, const Partition& partition, int rank);

  [[nodiscard]] const Part& part() const { return part_; }
  /// part().rows x part().columns elements.
  [[nodiscard]] float* values() { return values_.data(); }
  /// `sums` of `count` rows, one after another.
  void step(const RowOptimizer& optimizer, const std::uint32_t* rows, std::int64_t count, const float* sums) {
    optimizer.apply(values_.data(), state_[0].data(), state_[1].data(), rows, count, part_.columns, sums);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return values_.bytes() + state_[0].bytes() + state_[1].bytes(); }

 private:
  Part part_;
  Buffer<float> values_;
  std::array<Buffer<float>, 2> state_;
};

}  // namespace weir::embedding
