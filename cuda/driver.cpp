#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

namespace weir::cuda {
namespace {

/// Returns how many objects this process has loaded, unloaded ones included.
unsigned long long objects_loaded() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = first->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

}  // namespace

bool driver_is_loaded() {
  static std::atomic<bool> loaded = false;
  static std::atomic<unsigned long long> looked_at = 0;  // objects that were loaded when the driver was not
  if (loaded) return true;
  // The loader searches every folder of its path for a missing library: 10 to 30 us, as long as a small plan's whole run.
  const unsigned long long count = objects_loaded();
  if (count == looked_at) return false;
  loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  looked_at = count;
  return loaded;
}

}  // namespace weir::cuda
