// nccl_library.hpp: NCCL's functions, from its shared library. Only for nccl.cpp, and for tests that replace the library.
#pragma once

#include <nccl.h>

#include <string>

namespace weir::cuda {

struct NcclFunctions {
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum = nullptr;
  decltype(&ncclRedOpDestroy) red_op_destroy = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
};

struct NcclLibrary {
  NcclFunctions call;
  int version = 0;
  std::string why_not;  ///< empty: all functions were found
};
[[nodiscard]] const NcclLibrary& nccl_library();

/// Returns why NCCL cannot be used; empty if it can. `load_error`: of loading it, nullptr if it is loaded. `version`: 0 if it has
/// not said.
[[nodiscard]] std::string reason_without_nccl(const char* load_error, int version);

}  // namespace weir::cuda
