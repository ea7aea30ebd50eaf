// Catch2's main, where there is a GPU.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdio>

#include "cuda/runtime.hpp"

int main(int argc, char** argv) {
  if (!weir::cuda::why_unusable().empty()) {
    std::printf("skipped: %s\n", weir::cuda::why_unusable().c_str());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
