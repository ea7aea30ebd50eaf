// device_plan.hpp: plans for CUDA memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weir::detail {

/// Holds the resources that a plan in CUDA memory acquires together with other ranks.
struct DeviceNeeds {
  NcclGroups* nccl = nullptr;  ///< nullptr if the plan does not need NCCL
  bool in_nodes = false;       ///< algorithms that shard can use NCCL for the sums in their nodes
  std::string explanation;     ///< describes how the plan runs
};

/// Collective. `config` is the agreed one, for CUDA memory. Throws the same Error on all ranks if a dense plan cannot have NCCL.
[[nodiscard]] DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag);
/// Makes a plan as TypedPlan does, without messages. Throws Error(WEIR_ERR_UNSUPPORTED) in a build without CUDA.
[[nodiscard]] std::shared_ptr<PlanImpl> make_device_plan(std::shared_ptr<CommunicatorState> comm,
                                                         const std::vector<AllreduceConfig>& candidates, Lease lease,
                                                         const DeviceNeeds& needs);

}  // namespace weir::detail
