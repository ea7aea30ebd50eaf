// low_rank.hpp: products of a large matrix with a few columns, and what else PowerSGD does with them. Every sum has a fixed order
// and nothing is fused: the same bits on every instruction set. A factor of r columns has each column contiguous, one after
// another.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::compress {

/// A vector of `count` elements as a matrix, row by row; what its last row lacks is zero.
struct MatrixShape {
  std::int64_t count = 0, columns = 0;

  [[nodiscard]] constexpr std::int64_t rows() const { return count == 0 ? 0 : (count + columns - 1) / columns; }
  /// Rows that lack nothing.
  [[nodiscard]] constexpr std::int64_t whole_rows() const { return count == 0 ? 0 : count / columns; }
  [[nodiscard]] constexpr std::int64_t last_length() const { return count - whole_rows() * columns; }
};

/// `columns` of them where it is not 0, else as nearly square as possible. From 64 columns on a square has an odd multiple of 16,
/// so that elements of one column do not share a few places in the cache.
[[nodiscard]] MatrixShape matrix_shape(std::int64_t count, std::int64_t columns);

/// P = M Q. P has shape.rows() rows, Q has shape.columns.
void multiply(MatrixShape shape, const float* m, const float* q, std::int64_t rank, float* p);

/// Q = M^T P.
void multiply_transposed(MatrixShape shape, const float* m, const float* p, std::int64_t rank, float* q);

/// With L = P Q^T: rest = M - L, unless `rest` is nullptr, and out = `factor` L. Either may be `m`.
void split_off(MatrixShape shape, const float* m, const float* p, const float* q, std::int64_t rank, float factor, float* rest,
               float* out);

/// Columns become orthogonal, of length 1. One that depends on those before it, up to rounding, becomes zero. `scratch` has room
/// for `rank` numbers.
void orthogonalise(float* p, std::int64_t rows, std::int64_t rank, double* scratch);

}  // namespace weir::compress
