// cuda_support.hpp: asks the MPI library whether it accepts pointers to CUDA memory.
#pragma once

#include <string_view>

#include "transport/device_path.hpp"

namespace weir {

/// Asks the library; MPI must be running. `library`: the text of MPI_Get_library_version. Open MPI answers by
/// MPIX_Query_cuda_support, MPICH from 4.0 on by MPIX_GPU_query_support, Cray MPICH before that by the variable that switches it
/// on: MPICH_GPU_SUPPORT_ENABLED=1.
[[nodiscard]] CudaSupport ask_cuda_support(std::string_view library);

}  // namespace weir
