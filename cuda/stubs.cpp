// What a build without CUDA has in place of cuda/: it says so.
#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "plan/device_plan.hpp"

namespace weir {

namespace cuda {

const std::string& why_unusable() {
  static const std::string reason =
      "this build of Weir has no CUDA: configure it with -DWEIR_WITH_CUDA=ON and a CUDA toolkit from 12 on";
  return reason;
}

Place place_of(const void*) { return {}; }
int device_count() { return 0; }
DeviceInfo describe(int) { fail(WEIR_ERR_UNSUPPORTED, "{}", why_unusable()); }

}  // namespace cuda

std::shared_ptr<detail::PlanState> detail::make_device_plan(std::shared_ptr<CommunicatorState>, const AllreduceConfig&, int) {
  fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
}

}  // namespace weir
