// rows.cuh: how kernels go through the rows of matrices. A row has as many threads as it has vectors, up to a warp; narrow rows
// share a warp.
#pragma once

#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {

/// How threads are assigned to rows of `width` elements, taken `size` at a time.
struct Shape {
  std::int64_t rows, width;
  int log_lanes;  // 2^log_lanes threads per row
};

/// Calls f(row, first column) for this thread's share, `size` columns at a time.
template <int size, class F>
__device__ __forceinline__ void for_pieces(Shape shape, F f) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x) >> shape.log_lanes;
  if (row >= shape.rows) return;
  const int lanes = 1 << shape.log_lanes;
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x & static_cast<unsigned>(lanes - 1)) * size; column < shape.width;
       column += std::int64_t{lanes} * size)
    f(row, column);
}

/// Returns, element by element, the sum of rows order[begin], ..., order[end - 1] of x, at least one, in this order: `size` columns
/// from `column` on.
template <class T, int size>
__device__ __forceinline__ Vector<T, size> sum_of_members(const T* x, std::int64_t width, std::int64_t column,
                                                          const std::uint32_t* order, std::uint32_t begin, std::uint32_t end) {
  using Piece = Vector<T, size>;
  const auto member = [&](std::uint32_t i) {
    return *reinterpret_cast<const Piece*>(x + static_cast<std::int64_t>(order[i]) * width + column);
  };
  std::uint32_t i = begin;
  Piece sum = member(i++);
  // Load rows ahead of the additions, which depend on each other.
  constexpr int ahead = 4;
  for (; i + ahead <= end; i += ahead) {
    Piece next[ahead];
#pragma unroll
    for (int j = 0; j < ahead; ++j) next[j] = member(i + static_cast<std::uint32_t>(j));
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
#pragma unroll
      for (int e = 0; e < size; ++e) sum.at[e] += next[j].at[e];
    }
  }
  for (; i < end; ++i) {
    const Piece next = member(i);
#pragma unroll
    for (int e = 0; e < size; ++e) sum.at[e] += next.at[e];
  }
  return sum;
}

inline Shape shape_of(std::int64_t count, std::int64_t columns, std::int64_t size) {
  int log_lanes = 0;
  while (log_lanes < 5 && (size << log_lanes) < columns) ++log_lanes;
  return {count, columns, log_lanes};
}

inline std::int64_t blocks_of(Shape shape) { return tiles_of(shape.rows << shape.log_lanes, threads_per_block); }

}  // namespace weir::kernels::cuda
