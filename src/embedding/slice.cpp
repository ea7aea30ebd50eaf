#include "embedding/slice.hpp"

#include "base/splitmix.hpp"
#include "kernels/kernels.hpp"

namespace weir::embedding {

Slice::Slice(const EmbeddingConfig& config, const Partition& partition, int rank)
    : part_(partition.part(rank)), values_(part_.elements()) {
  const auto range = static_cast<float>(config.initial_range);
  const auto width = static_cast<std::uint64_t>(partition.width());
  const std::uint64_t stream = splitmix64(config.seed);
  float* out = values_.data();
  for (std::int64_t i = 0; i < part_.rows; ++i) {
    const std::uint64_t row = partition.row(static_cast<std::uint64_t>(part_.first_row + i));
    for (std::int64_t c = 0; c < part_.columns; ++c) {
      const std::uint64_t bits = splitmix64(stream + row * width + static_cast<std::uint64_t>(part_.first_column + c));
      *out++ = range * (static_cast<float>(bits >> 40) * 0x1p-23F - 1);
    }
  }
  for (int i = 0; i < state_arrays(config.optimizer); ++i) {
    Buffer<float>& state = state_[static_cast<std::size_t>(i)] = Buffer<float>(part_.elements());
    kernels::host::fill_zero(state.data(), state.size());
  }
}

}  // namespace weir::embedding
