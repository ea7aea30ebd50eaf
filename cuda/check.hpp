// check.hpp: the CUDA runtime's errors as Weir's.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace weir {

/// Throws Error(WEIR_ERR_MEMORY) where device memory ran out, else Error(WEIR_ERR_DEVICE), saying what was tried.
void throw_cuda(cudaError_t error, const char* what);

namespace cuda {
/// Why there is no GPU to work with, empty where there is: from the versions of driver (0: none) and runtime, and what counting
/// GPUs gave.
[[nodiscard]] std::string reason_unusable(int driver, int runtime, cudaError_t error, int devices);
}  // namespace cuda

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_cuda(error, what);
}

}  // namespace weir
