// Replaces runtime.cpp in a build without CUDA, and says so.
#include "base/error.hpp"
#include "cuda/runtime.hpp"

namespace weir::cuda {
namespace {

[[noreturn]] void refuse() { fail(WEIR_ERR_UNSUPPORTED, "{}", why_unusable()); }

}  // namespace

const std::string& why_unusable() {
  static const std::string reason =
      "this build of Weir has no CUDA: configure it with -DWEIR_WITH_CUDA=ON and a CUDA toolkit from 12 on";
  return reason;
}

Place place_of(const void*) { return {}; }
int device_count() { return 0; }
DeviceInfo describe(int) { refuse(); }

OnDevice::OnDevice(int) : before_(0) { refuse(); }
OnDevice::~OnDevice() = default;
Memory::Memory(MemoryKind, std::int64_t) { refuse(); }
Memory::~Memory() = default;
Stream::Stream() { refuse(); }
Stream::~Stream() = default;
void synchronize(void*) { refuse(); }
void copy(void*, const void*, std::int64_t, void*) { refuse(); }

}  // namespace weir::cuda
