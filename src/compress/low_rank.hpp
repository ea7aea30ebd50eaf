// low_rank.hpp: products of a large matrix with a few columns, and the other operations of PowerSGD. Every sum has a fixed order
// and no operations are fused, so the bits are the same on every instruction set. In a factor of r columns each column is
// contiguous, one after another.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::compress {

/// A vector of `count` elements as a matrix, row by row. The missing elements of its last row are zero.
struct MatrixShape {
  std::int64_t count = 0, columns = 0;

  [[nodiscard]] constexpr std::int64_t rows() const { return count == 0 ? 0 : (count + columns - 1) / columns; }
  /// Returns the number of complete rows.
  [[nodiscard]] constexpr std::int64_t whole_rows() const { return count == 0 ? 0 : count / columns; }
  [[nodiscard]] constexpr std::int64_t last_length() const { return count - whole_rows() * columns; }
};

/// Returns a matrix of `columns` columns, or one as nearly square as possible if that is 0. From 64 columns on, a square matrix has
/// an odd multiple of 16, so that elements of one column do not compete for a few places in the cache.
[[nodiscard]] MatrixShape matrix_shape(std::int64_t count, std::int64_t columns);

/// Computes P = M Q. P has shape.rows() rows, Q has shape.columns.
void multiply(MatrixShape shape, const float* m, const float* q, std::int64_t rank, float* p);

/// Computes Q = M^T P.
void multiply_transposed(MatrixShape shape, const float* m, const float* p, std::int64_t rank, float* q);

/// Computes, with L = P Q^T, rest = M - L, unless `rest` is nullptr, and out = `factor` L. Either may be `m`.
void split_off(MatrixShape shape, const float* m, const float* p, const float* q, std::int64_t rank, float factor, float* rest,
               float* out);

/// Makes the columns orthogonal, of length 1. A column that depends on earlier ones, up to rounding, becomes zero. `scratch` has
/// room for `rank` numbers.
void orthogonalise(float* p, std::int64_t rows, std::int64_t rank, double* scratch);

}  // namespace weir::compress
