// allreduce_dense.hpp: the dense algorithms for CUDA memory that use NCCL: dense_nccl and dense_torus2d.
#pragma once

#include <memory>
#include <string_view>

#include "collectives/allreduce.hpp"
#include "nccl/groups.hpp"

namespace weir::detail {

/// Returns the groups that algorithm `name` needs connected.
[[nodiscard]] std::span<const NcclGroup> groups_of_dense(std::string_view name);

/// Makes the allreduce of float16, bfloat16, float or double on spec.stream. It sums in that type. To average 16-bit types, or over
/// 2^i ranks, where that is exact, it multiplies by 1 / P before it sums. Otherwise it multiplies the sum by the rounded 1 / P, as
/// on the host.
template <class G>
[[nodiscard]] std::unique_ptr<DenseAllreduce<G>> make_dense_nccl(std::string_view name, const ExchangeSpec& spec, NcclGroups& nccl);

}  // namespace weir::detail
