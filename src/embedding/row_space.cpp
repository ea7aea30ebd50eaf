#include "embedding/row_space.hpp"

namespace weir::embedding {

Slice::Slice(const EmbeddingConfig& config, const Partition& partition, int rank, RowSpace& space)
    : part_(partition.part(rank)), state_{space.take_rows(part_.elements()), nullptr, nullptr} {
  const int arrays = state_arrays(config.optimizer);
  if (arrays > 0) state_.first = space.take_rows(part_.elements());
  if (arrays > 1) state_.second = space.take_rows(part_.elements());
}

void Slice::fill(const EmbeddingConfig& config, const Partition& partition, RowSpace& space) const {
  space.fill(InitialValues(config, partition, part_), state_.values);
  for (float* array : {state_.first, state_.second}) {
    if (array != nullptr) space.fill_zero(array, part_.elements());
  }
}

void Slice::visit_state(StateVisitor& visitor, RowSpace& space, const EmbeddingConfig& config) const {
  const StateVisitor::Scope scope(visitor, "rows");
  visitor.fixed("first_row", part_.first_row, Share::layout);
  visitor.fixed("first_column", part_.first_column, Share::layout);
  const StateVisitor::Placed placed(visitor, {Share::block,
                                              {.whole_rows = config.rows,
                                               .whole_columns = config.width,
                                               .first_row = part_.first_row,
                                               .rows = part_.rows,
                                               .first_column = part_.first_column,
                                               .columns = part_.columns}});
  const StateVisitor::Copy copy = [&](void* to, const void* from, std::int64_t bytes) { space.copy(to, from, bytes); };
  visitor.array("values", state_.values, part_.elements(), copy);
  if (state_.first != nullptr) visitor.array("first", state_.first, part_.elements(), copy);
  if (state_.second != nullptr) visitor.array("second", state_.second, part_.elements(), copy);
}

}  // namespace weir::embedding
