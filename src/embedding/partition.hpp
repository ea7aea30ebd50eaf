// partition.hpp: which rank holds which part of an embedding table, and the initial values of a part. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>
#include <weir/embedding.hpp>

#include "base/splitmix.hpp"
#include "topology/topology.hpp"

namespace weir::embedding {

/// How gradients reach the ranks that step the optimizer.
enum class GradientPath { alltoallv, allgatherv, allreduce };

enum class TableSplit { columns, rows, hashed_rows, node_rows, none };

/// One way to divide and exchange a table: a row of the registry.
struct TableExchange {
  std::string_view name, description;
  TableSplit split;
  GradientPath path;

  [[nodiscard]] bool replicated() const { return split == TableSplit::none; }
};

[[nodiscard]] std::span<const TableExchange> exchange_registry();
/// Returns the exchange of that name. Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const TableExchange& find_exchange(std::string_view name);

/// A range of rows and a range of columns. Rows are named by their position, see Partition.
struct Part {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_column = 0, columns = 0;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

/// A permutation of the row numbers below `rows`.
struct Permutation {
  std::uint64_t rows, factor = 1, inverse = 1;  ///< factor x inverse is 1 modulo rows
  [[nodiscard]] constexpr std::uint64_t position(std::uint64_t row) const noexcept { return row * factor % rows; }
  [[nodiscard]] constexpr std::uint64_t row(std::uint64_t position) const noexcept { return position * inverse % rows; }
};

/// A table of `rows` x `width` divided among all ranks of a topology. Rows are stored, sorted and exchanged by their *position*, a
/// permutation of row numbers; every part is a range of positions times a range of columns.
class Partition {
 public:
  Partition(TableSplit split, std::int64_t rows, std::int64_t width, const Topology& topology);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(permutation_.rows); }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::uint32_t position(std::uint64_t row) const { return static_cast<std::uint32_t>(permutation_.position(row)); }
  [[nodiscard]] std::uint64_t row(std::uint64_t position) const { return permutation_.row(position); }
  [[nodiscard]] const Permutation& permutation() const { return permutation_; }
  /// Returns what `rank` holds, which may be empty; positions and columns ascend with the rank.
  [[nodiscard]] const Part& part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t memory_bytes() const { return static_cast<std::int64_t>(parts_.capacity() * sizeof(Part)); }

 private:
  Permutation permutation_;
  std::int64_t width_;
  std::vector<Part> parts_;
};

/// The values of one part of a table before it is trained (EmbeddingConfig::seed). The same code runs on GPUs.
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
