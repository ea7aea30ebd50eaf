#include "cuda/ranges.hpp"

#include <nvtx3/nvToolsExt.h>

namespace weir::cuda {
namespace {

nvtxDomainHandle_t domain() noexcept {
  static nvtxDomainHandle_t const handle = nvtxDomainCreateA("weir");
  return handle;
}

}  // namespace

std::uint64_t begin_range(const char* name) noexcept {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  return nvtxDomainRangeStartEx(domain(), &event) + 1;  // a profiler may begin with 0
}

void end_range(std::uint64_t range) noexcept { nvtxDomainRangeEnd(domain(), range - 1); }

}  // namespace weir::cuda
