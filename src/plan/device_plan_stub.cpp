// Replaces device_plan.cpp in a build without CUDA.
#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "plan/step.hpp"

namespace weir::detail {

DeviceNeeds connect_device(CommunicatorState&, const AllreduceConfig&, int) { return {}; }

std::unique_ptr<PlanMemory> make_device_memory(const DeviceNeeds&) {
  fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
}

}  // namespace weir::detail
