#include "check.hpp"

#include "base/error.hpp"

namespace weir {

void throw_cuda(cudaError_t error, const char* what) {
  cudaGetLastError();  // clears the error: later launches that ask CUDA for errors must not see it
  fail(error == cudaErrorMemoryAllocation ? WEIR_ERR_MEMORY : WEIR_ERR_DEVICE, "{} failed: {} ({})", what,
       cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace weir
