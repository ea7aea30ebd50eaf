// cuda_row_kernels.hpp: kernels of embedding tables on rows in CUDA memory, besides those of kernels/cuda_kernels.hpp. Called as
// those are: pointers are to device memory, or to pinned host memory; work goes onto the queue without waiting. They use no
// scratch.
#pragma once

#include "embedding/optimizer.hpp"
#include "embedding/partition.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::embedding::cuda {

using kernels::cuda::Queue;

/// Fills `out`, part().rows x part().columns elements, with initial values.
void fill(Queue queue, const InitialValues& values, float* out);

/// Packs `columns` elements of each of `rows` of x, rounded as wire::pack_values does, one row after another; `values` is a 16-bit
/// type.
void pack_rows(Queue queue, WireValues values, const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count,
               std::int64_t columns, std::byte* out);
/// Does what wire::unpack_values does; `values` is a 16-bit type.
void unpack_values(Queue queue, WireValues values, const std::byte* in, std::int64_t count, float* out);

/// Sets to[rows[i]] = row i of x, of `columns` elements. No row occurs twice.
void scatter_rows(Queue queue, const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to);

/// For each group, sums the members' rows of x in their order, as coalesce_rows does, and steps row keys[group].
void step_rows(Queue queue, const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
               const GroupLists& groups);

}  // namespace weir::embedding::cuda
