// device_plan.hpp: plans for CUDA memory.
#pragma once

#include <memory>
#include <string>

#include "plan/step.hpp"

namespace weir::detail {

/// Holds the resources that a plan in CUDA memory acquires together with other ranks.
struct DeviceNeeds {
  NcclGroups* nccl = nullptr;  ///< nullptr if the plan does not need NCCL
  bool in_nodes = false;       ///< algorithms that shard can use NCCL for the sums in their nodes
  std::string explanation;     ///< describes how the plan runs
};

/// Collective. `config` is the agreed one, for CUDA memory. Throws the same Error on all ranks if a dense plan cannot have NCCL.
[[nodiscard]] DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag);
/// Makes the memory of a plan on the thread's current GPU. Throws Error(WEIR_ERR_UNSUPPORTED) in a build without CUDA.
[[nodiscard]] std::unique_ptr<PlanMemory> make_device_memory(const DeviceNeeds& needs);

}  // namespace weir::detail
