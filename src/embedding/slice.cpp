#include "embedding/slice.hpp"

namespace weir::embedding {

Slice::Slice(const EmbeddingConfig& config, const Partition& partition, int rank, RowSpace& space)
    : part_(partition.part(rank)), state_{space.take_rows(part_.elements()), nullptr, nullptr} {
  space.fill(InitialValues(config, partition, part_), state_.values);
  const int arrays = state_arrays(config.optimizer);
  const auto take_zero = [&] {
    float* const array = space.take_rows(part_.elements());
    space.fill_zero(array, part_.elements());
    return array;
  };
  if (arrays > 0) state_.first = take_zero();
  if (arrays > 1) state_.second = take_zero();
}

}  // namespace weir::embedding
