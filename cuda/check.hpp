// check.hpp: the CUDA runtime's errors as Weir's.
#pragma once

#include <cuda_runtime.h>

namespace weir {

/// Throws Error(WEIR_ERR_MEMORY) where device memory ran out, else Error(WEIR_ERR_CUDA), saying what was tried.
void throw_cuda(cudaError_t error, const char* what);

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_cuda(error, what);
}

}  // namespace weir
