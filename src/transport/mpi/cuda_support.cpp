#include "transport/mpi/cuda_support.hpp"

#include <mpi.h>

#include <cstdlib>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace weir {

CudaSupport ask_cuda_support([[maybe_unused]] std::string_view library) {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() != 0 ? CudaSupport::yes : CudaSupport::no;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int supported = 0;
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) != MPI_SUCCESS) return CudaSupport::unknown;
  return supported != 0 ? CudaSupport::yes : CudaSupport::no;
#else
  if (library.find("CRAY MPICH") == std::string_view::npos) return CudaSupport::unknown;
  const char* const enabled = std::getenv("MPICH_GPU_SUPPORT_ENABLED");
  return enabled != nullptr && std::string_view(enabled) == "1" ? CudaSupport::yes : CudaSupport::no;
#endif
}

}  // namespace weir
