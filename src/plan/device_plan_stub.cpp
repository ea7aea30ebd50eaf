// Replaces device_plan.cpp in a build without CUDA.
#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "plan/device_plan.hpp"

namespace weir::detail {

DeviceNeeds connect_device(CommunicatorState&, const AllreduceConfig&, int) { return {}; }

// NOLINTNEXTLINE(performance-unnecessary-value-param): device_plan.cpp moves it
std::shared_ptr<PlanImpl> make_device_plan(std::shared_ptr<CommunicatorState>, const std::vector<AllreduceConfig>&, Lease,
                                           const DeviceNeeds&) {
  fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
}

}  // namespace weir::detail
