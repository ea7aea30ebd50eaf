// Rows of matrices. A row is worked on by as many threads as it has vectors, up to a warp; narrow rows share a warp.
#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

/// How threads are laid over rows of `width` elements, taken `size` at a time.
struct Shape {
  std::int64_t rows, width;
  int log_lanes;  // 2^log_lanes threads a row
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

template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    gather_rows_kernel(const T* x, std::int64_t x_stride, const std::uint32_t* wanted, Shape shape, T* out,
                       std::int64_t out_stride) {
  using Piece = Vector<T, size>;
  for_pieces<size>(shape, [&](std::int64_t row, std::int64_t column) {
    *reinterpret_cast<Piece*>(out + row * out_stride + column) =
        *reinterpret_cast<const Piece*>(x + static_cast<std::int64_t>(wanted[row]) * x_stride + column);
  });
}

template <class T, int size>
__global__ void __launch_bounds__(threads_per_block)
    coalesce_rows_kernel(const T* x, const std::uint32_t* order, const std::uint32_t* first, Shape shape, T* out) {
  using Piece = Vector<T, size>;
  for_pieces<size>(shape, [&](std::int64_t group, std::int64_t column) {
    const auto member = [&](std::uint32_t i) {
      return *reinterpret_cast<const Piece*>(x + static_cast<std::int64_t>(order[i]) * shape.width + column);
    };
    const std::uint32_t end = first[group + 1];
    std::uint32_t i = first[group];
    Piece sum = member(i++);
    // Rows are asked for ahead of the additions, which wait for each other.
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
    *reinterpret_cast<Piece*>(out + group * shape.width + column) = sum;
  });
}

Shape shape_of(std::int64_t rows, std::int64_t width, std::int64_t size) {
  int log_lanes = 0;
  while (log_lanes < 5 && (size << log_lanes) < width) ++log_lanes;
  return {rows, width, log_lanes};
}

std::int64_t blocks_of(Shape shape) { return tiles_of(shape.rows << shape.log_lanes, threads_per_block); }

}  // namespace

template <class T>
void gather_rows(Queue queue, const T* x, std::int64_t x_stride, const std::uint32_t* wanted, std::int64_t count,
                 std::int64_t width, T* out, std::int64_t out_stride) {
  constexpr int size = 16 / sizeof(T);
  const bool vectors =
      is_aligned(x, 16) && is_aligned(out, 16) && width % size == 0 && x_stride % size == 0 && out_stride % size == 0;
  const Shape shape = shape_of(count, width, vectors ? size : 1);
  launch(queue, vectors ? gather_rows_kernel<T, size> : gather_rows_kernel<T, 1>, blocks_of(shape), x, x_stride, wanted, shape, out,
         out_stride);
}

template <class T>
void coalesce_rows(Queue queue, const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first,
                   std::int64_t groups, T* out) {
  constexpr int size = 16 / sizeof(T);
  const bool vectors = is_aligned(x, 16) && is_aligned(out, 16) && width % size == 0;
  const Shape shape = shape_of(groups, width, vectors ? size : 1);
  launch(queue, vectors ? coalesce_rows_kernel<T, size> : coalesce_rows_kernel<T, 1>, blocks_of(shape), x, order, first, shape,
         out);
}

#define WEIR_INSTANTIATE(T)                                                                                                     \
  template void gather_rows(Queue, const T*, std::int64_t, const std::uint32_t*, std::int64_t, std::int64_t, T*, std::int64_t); \
  template void coalesce_rows(Queue, const T*, std::int64_t, const std::uint32_t*, const std::uint32_t*, std::int64_t, T*);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
