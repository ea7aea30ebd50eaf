// initial_values.hpp: the values of a table before it is trained (EmbeddingConfig::seed). The same code runs on GPUs.
#pragma once

#include <cstdint>

#include "base/splitmix.hpp"
#include "embedding/partition.hpp"

namespace weir::embedding {

/// The initial values of one part of a table.
class InitialValues {
 public:
  InitialValues(const EmbeddingConfig& config, const Partition& partition, const Part& part)
      : part_(part),
        permutation_(partition.permutation()),
        width_(static_cast<std::uint64_t>(partition.width())),
        stream_(splitmix64(config.seed)),
        range_(static_cast<float>(config.initial_range)) {}

  [[nodiscard]] constexpr const Part& part() const noexcept { return part_; }
  /// Returns the number, in the whole table, of the element in column 0 of row `row` of the part.
  [[nodiscard]] constexpr std::uint64_t begin_of(std::int64_t row) const noexcept {
    return permutation_.row(static_cast<std::uint64_t>(part_.first_row + row)) * width_;
  }
  /// Returns the value in column `column` of the part, in the row that begins at element `begin`.
  [[nodiscard]] constexpr float at(std::uint64_t begin, std::int64_t column) const noexcept {
    const std::uint64_t bits = splitmix64(stream_ + begin + static_cast<std::uint64_t>(part_.first_column + column));
    return range_ * (static_cast<float>(bits >> 40) * 0x1p-23F - 1);
  }

 private:
  Part part_;
  Permutation permutation_;
  std::uint64_t width_, stream_;
  float range_;
};

}  // namespace weir::embedding
