// Catch2's main for machines with a GPU.
#include <cstdio>

#include "cuda/runtime.hpp"
#include "support/session.hpp"

int main(int argc, char** argv) {
  if (!weir::cuda::why_unusable().empty()) {
    std::printf("skipped: %s\n", weir::cuda::why_unusable().c_str());
    return 77;
  }
  return weir::test::run_session(argc, argv);
}
