// partition.hpp: which rank holds which part of an embedding table. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>
#include <weir/embedding.hpp>

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

}  // namespace weir::embedding
