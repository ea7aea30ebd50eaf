#include "check.hpp"

#include "base/error.hpp"

namespace weir {

void throw_cuda(cudaError_t error, const char* what) {
  cudaGetLastError();  // whoever asks CUDA after a launch of their own must not hear of it
  fail(error == cudaErrorMemoryAllocation ? WEIR_ERR_MEMORY : WEIR_ERR_DEVICE, "{} failed: {} ({})", what,
       cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace weir
