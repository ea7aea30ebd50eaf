// sparse_cuda.hpp: the sparse algorithms for plans in CUDA memory.
#pragma once

#include "collectives/allreduce.hpp"

namespace weir {

/// What row.make_sparse makes, for vectors in CUDA memory; spec.stream is set. Algorithms without kernels of their own for the
/// exchange run in host memory, their entries staged.
template <class T>
[[nodiscard]] std::unique_ptr<SparseAllreduce<T>> make_sparse_cuda(const AllreduceRow& row, const ExchangeSpec& spec);

}  // namespace weir
