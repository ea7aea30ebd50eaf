// Rows of embedding tables: their initial values, how they travel, and the optimizer's step. Compiled without fused multiplications
// and additions, so that the optimizer has the host's bits.
#include "embedding/cuda_row_kernels.hpp"
#include "kernels/narrow.hpp"
#include "rows.cuh"

namespace weir::embedding::cuda {
namespace {

using namespace weir::kernels::cuda;

constexpr int most_at_once = 4;  // elements per piece

__global__ void __launch_bounds__(threads_per_block) fill_kernel(InitialValues values, std::int64_t count, float* out) {
  const std::int64_t columns = values.part().columns, stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = thread_number(); i < count; i += stride) out[i] = values.at(values.begin_of(i / columns), i % columns);
}

template <class Narrow, int size>
__global__ void __launch_bounds__(threads_per_block)
    pack_rows_kernel(const float* x, std::int64_t stride, const std::uint32_t* wanted, Shape shape, Narrow* out) {
  for_pieces<size>(shape, [&](std::int64_t row, std::int64_t column) {
    const auto wide = *reinterpret_cast<const Vector<float, size>*>(x + static_cast<std::int64_t>(wanted[row]) * stride + column);
    Vector<Narrow, size> narrow;
#pragma unroll
    for (int e = 0; e < size; ++e) narrow.at[e] = narrow_to<Narrow, true>(wide.at[e]);
    *reinterpret_cast<Vector<Narrow, size>*>(out + row * shape.width + column) = narrow;
  });
}

/// Unpacks vectors of `size` elements, and the rest one by one.
template <class Narrow, int size>
__global__ void __launch_bounds__(threads_per_block) unpack_kernel(const Narrow* in, std::int64_t count, float* out) {
  const std::int64_t vectors = count / size, thread = thread_number();
  if (thread < vectors) {
    const auto narrow = reinterpret_cast<const Vector<Narrow, size>*>(in)[thread];
    Vector<float, size> wide;
#pragma unroll
    for (int e = 0; e < size; ++e) wide.at[e] = widen(narrow.at[e]);
    reinterpret_cast<Vector<float, size>*>(out)[thread] = wide;
  } else if (const std::int64_t i = vectors * size + thread - vectors; i < count) {
    out[i] = widen(in[i]);
  }
}

template <int size>
__global__ void __launch_bounds__(threads_per_block)
    scatter_rows_kernel(const float* x, const std::uint32_t* rows, Shape shape, float* to) {
  using Piece = Vector<float, size>;
  for_pieces<size>(shape, [&](std::int64_t row, std::int64_t column) {
    *reinterpret_cast<Piece*>(to + static_cast<std::int64_t>(rows[row]) * shape.width + column) =
        *reinterpret_cast<const Piece*>(x + row * shape.width + column);
  });
}

/// Elements of rows in registers, loaded from and stored to memory: of the values, and of the arrays that the optimizer keeps.
template <Optimizer kind, int size>
struct Elements {
  using Piece = Vector<float, size>;
  static constexpr bool has_first = kind != Optimizer::sgd, has_second = kind == Optimizer::adam;
  Piece values, first, second;

  __device__ __forceinline__ Elements(const RowState& state, std::int64_t begin)
      : values(*reinterpret_cast<const Piece*>(state.values + begin)) {
    if constexpr (has_first) first = *reinterpret_cast<const Piece*>(state.first + begin);
    if constexpr (has_second) second = *reinterpret_cast<const Piece*>(state.second + begin);
  }
  __device__ __forceinline__ void store(const RowState& state, std::int64_t begin) const {
    *reinterpret_cast<Piece*>(state.values + begin) = values;
    if constexpr (has_first) *reinterpret_cast<Piece*>(state.first + begin) = first;
    if constexpr (has_second) *reinterpret_cast<Piece*>(state.second + begin) = second;
  }
};

template <Optimizer kind, int size>
__global__ void __launch_bounds__(threads_per_block)
    step_rows_kernel(RowOptimizer optimizer, RowState state, const float* x, GroupLists groups, Shape shape) {
  for_pieces<size>(shape, [&](std::int64_t group, std::int64_t column) {
    const auto sum =
        sum_of_members<float, size>(x, shape.width, column, groups.order, groups.first[group], groups.first[group + 1]);
    const std::int64_t begin = static_cast<std::int64_t>(groups.keys[group]) * shape.width + column;
    Elements<kind, size> elements(state, begin);
#pragma unroll
    for (int e = 0; e < size; ++e) optimizer.step<kind>({elements.values.at, elements.first.at, elements.second.at}, e, sum.at[e]);
    elements.store(state, begin);
  });
}

template <class Narrow>
void pack_as(const Queue& queue, const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count,
             std::int64_t columns, std::byte* out) {
  const bool vectors = is_aligned(x, 16) && is_aligned(out, 8) && columns % most_at_once == 0 && stride % most_at_once == 0;
  const Shape shape = shape_of(count, columns, vectors ? most_at_once : 1);
  launch(queue, vectors ? pack_rows_kernel<Narrow, most_at_once> : pack_rows_kernel<Narrow, 1>, blocks_of(shape), x, stride, rows,
         shape, reinterpret_cast<Narrow*>(out));
}

template <class Narrow>
void unpack_as(const Queue& queue, const std::byte* in, std::int64_t count, float* out) {
  const bool vectors = is_aligned(in, 8) && is_aligned(out, 16);
  const std::int64_t threads = vectors ? count / most_at_once + count % most_at_once : count;
  launch(queue, vectors ? unpack_kernel<Narrow, most_at_once> : unpack_kernel<Narrow, 1>, tiles_of(threads, threads_per_block),
         reinterpret_cast<const Narrow*>(in), count, out);
}

template <Optimizer kind>
void step_as(const Queue& queue, const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
             const GroupLists& groups) {
  bool vectors = columns % most_at_once == 0;
  for (const float* array : {static_cast<const float*>(state.values), static_cast<const float*>(state.first),
                             static_cast<const float*>(state.second), x})
    vectors = vectors && is_aligned(array, 16);
  const Shape shape = shape_of(groups.count, columns, vectors ? most_at_once : 1);
  launch(queue, vectors ? step_rows_kernel<kind, most_at_once> : step_rows_kernel<kind, 1>, blocks_of(shape), optimizer, state, x,
         groups, shape);
}

}  // namespace

void fill(Queue queue, const InitialValues& values, float* out) {
  const std::int64_t count = values.part().elements();
  launch(queue, fill_kernel, strided_blocks(count, threads_per_block), values, count, out);
}

void pack_rows(Queue queue, WireValues values, const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count,
               std::int64_t columns, std::byte* out) {
  if (values == WireValues::float16)
    pack_as<float16>(queue, x, stride, rows, count, columns, out);
  else
    pack_as<bfloat16>(queue, x, stride, rows, count, columns, out);
}

void unpack_values(Queue queue, WireValues values, const std::byte* in, std::int64_t count, float* out) {
  if (values == WireValues::float16)
    unpack_as<float16>(queue, in, count, out);
  else
    unpack_as<bfloat16>(queue, in, count, out);
}

void scatter_rows(Queue queue, const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) {
  const bool vectors = is_aligned(x, 16) && is_aligned(to, 16) && columns % most_at_once == 0;
  const Shape shape = shape_of(count, columns, vectors ? most_at_once : 1);
  launch(queue, vectors ? scatter_rows_kernel<most_at_once> : scatter_rows_kernel<1>, blocks_of(shape), x, rows, shape, to);
}

void step_rows(Queue queue, const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
               const GroupLists& groups) {
  switch (optimizer.kind()) {
    case Optimizer::sgd:
      return step_as<Optimizer::sgd>(queue, optimizer, state, columns, x, groups);
    case Optimizer::momentum:
      return step_as<Optimizer::momentum>(queue, optimizer, state, columns, x, groups);
    case Optimizer::adagrad:
      return step_as<Optimizer::adagrad>(queue, optimizer, state, columns, x, groups);
    case Optimizer::adam:
      return step_as<Optimizer::adam>(queue, optimizer, state, columns, x, groups);
  }
}

}  // namespace weir::embedding::cuda
