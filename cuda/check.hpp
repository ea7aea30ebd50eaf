// check.hpp: turns errors of the CUDA runtime into Weir's.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace weir {

/// Throws Error(WEIR_ERR_MEMORY) if device memory ran out, otherwise Error(WEIR_ERR_DEVICE), saying what was tried.
void throw_cuda(cudaError_t error, const char* what);

namespace cuda {
/// Returns why there is no usable GPU; empty if there is one. Depends on the versions of driver (0: no driver) and runtime, and on
/// the result of counting GPUs.
[[nodiscard]] std::string reason_unusable(int driver, int runtime, cudaError_t error, int devices);
}  // namespace cuda

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_cuda(error, what);
}

}  // namespace weir
