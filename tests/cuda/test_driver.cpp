// test_driver.cpp: tests whether a process has loaded the CUDA driver, before and after.
#include <dlfcn.h>

#include "cuda/driver.hpp"
#include "support/catch.hpp"

namespace weir::test {

TEST_CASE("a driver that is loaded later is noticed", "[driver]") {
  REQUIRE_FALSE(cuda::driver_is_loaded());
  REQUIRE_FALSE(cuda::driver_is_loaded());
  REQUIRE(dlopen(WEIR_TEST_OTHER_LIBRARY, RTLD_LAZY) != nullptr);
  REQUIRE_FALSE(cuda::driver_is_loaded());
  void* const driver = dlopen(WEIR_TEST_DRIVER, RTLD_LAZY);
  REQUIRE(driver != nullptr);
  REQUIRE(cuda::driver_is_loaded());
}

}  // namespace weir::test
