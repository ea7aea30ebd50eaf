// cuda_support.hpp: whether the MPI library takes pointers to CUDA memory, by its own word.
#pragma once

#include <string_view>

#include "transport/device_path.hpp"

namespace weir {

/// While MPI runs. `library`: as MPI_Get_library_version has it. Open MPI is asked by MPIX_Query_cuda_support, MPICH from 4.0 on by
/// MPIX_GPU_query_support, Cray MPICH before that by what switches it on: MPICH_GPU_SUPPORT_ENABLED=1.
[[nodiscard]] CudaSupport ask_cuda_support(std::string_view library);

}  // namespace weir
