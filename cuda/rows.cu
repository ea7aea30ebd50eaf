// Rows of matrices: gathers them, and sums groups of them.
#include "rows.cuh"

namespace weir::kernels::cuda {
namespace {

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
    *reinterpret_cast<Piece*>(out + group * shape.width + column) =
        sum_of_members<T, size>(x, shape.width, column, order, first[group], first[group + 1]);
  });
}

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
