// device_plan.hpp: plans for CUDA memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weir::detail {

/// What plans for CUDA memory take together with other ranks.
struct DeviceNeeds {
  NcclGroups* nccl = nullptr;  ///< nullptr: the plan does without
  bool in_nodes = false;       ///< algorithms that shard have it for their sums in nodes
  std::string explanation;     ///< a text on how the plan runs
};

/// Collective. `config` is the agreed one, for CUDA memory. Throws Error alike on all ranks where a dense plan cannot have NCCL.
[[nodiscard]] DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag);
/// Local; as TypedPlan. Throws Error(WEIR_ERR_UNSUPPORTED) where there is no CUDA.
[[nodiscard]] std::shared_ptr<PlanImpl> make_device_plan(std::shared_ptr<CommunicatorState> comm,
                                                         const std::vector<AllreduceConfig>& candidates, Lease lease,
                                                         const DeviceNeeds& needs);

}  // namespace weir::detail
