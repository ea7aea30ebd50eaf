// device_dense_plan.hpp: dense plans for CUDA memory: NCCL does all of it. Gradients never leave the GPUs.
#pragma once

#include <memory>

#include "plan/device_plan.hpp"

namespace weir::detail {

/// Collective. `config` is the agreed one, of a dense algorithm, for CUDA memory. Throws Error(WEIR_ERR_UNSUPPORTED), the same on
/// every rank, where a rank has no GPU of its own, or no NCCL.
[[nodiscard]] DeviceNeeds connect_device_dense(CommunicatorState& comm, const AllreduceConfig& config, int tag);

/// Local, after that. A run takes float16, bfloat16, float32 or float64, and sums in that. It is over once the GPU is done; zeros
/// in place of a sum that is skipped are put onto its stream. Averages of 16-bit types, and of 2^i ranks, where that is exact, are
/// of products with 1 / P; in others the sum is multiplied by the rounded 1 / P, as on the host.
[[nodiscard]] std::shared_ptr<PlanImpl> make_device_dense_plan(std::shared_ptr<CommunicatorState> comm,
                                                               const AllreduceConfig& config, Lease lease);

}  // namespace weir::detail
