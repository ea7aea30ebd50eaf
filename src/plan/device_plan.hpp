// device_plan.hpp: plans for CUDA memory.
#pragma once

#include <memory>

#include "plan/plan.hpp"

namespace weir::detail {

/// Collective. `config` is the agreed one, for CUDA memory. Throws Error(WEIR_ERR_UNSUPPORTED) where there is no CUDA.
[[nodiscard]] std::shared_ptr<PlanState> make_device_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config,
                                                          int tag);

}  // namespace weir::detail
