// slice.hpp: the part of an embedding table that one rank holds.
#pragma once

#include "base/state.hpp"
#include "embedding/row_space.hpp"

namespace weir::embedding {

/// Values and optimizer's state of one part, row by row. Rows count from the part's first one.
class Slice {
 public:
  /// Allocates the arrays in `space`, which must outlive it, without filling them.
  Slice(const EmbeddingConfig& config, const Partition& partition, int rank, RowSpace& space);
  /// Fills the arrays with the table's initial values (EmbeddingConfig::seed) and zero state.
  void fill(const EmbeddingConfig& config, const Partition& partition, RowSpace& space) const;
  /// Visits what fill() fills.
  void visit_state(StateVisitor& visitor, RowSpace& space, const EmbeddingConfig& config) const;

  [[nodiscard]] const Part& part() const { return part_; }
  /// Returns part().rows x part().columns elements.
  [[nodiscard]] float* values() const { return state_.values; }
  [[nodiscard]] const RowState& state() const { return state_; }

 private:
  Part part_;
  RowState state_;
};

}  // namespace weir::embedding
