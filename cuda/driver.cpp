#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <atomic>

namespace weir::cuda {

bool driver_is_loaded() {
  static std::atomic<bool> loaded = false;
  if (!loaded) loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  return loaded;
}

}  // namespace weir::cuda
