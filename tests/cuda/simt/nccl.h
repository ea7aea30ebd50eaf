// nccl.h: enough of NCCL to test code that uses it, without an installed NCCL. It replaces NCCL's header beside the emulated
// cuda_runtime.h.
//
// Ranks are threads, each with its own GPU. Communicators are nonblocking: a call returns ncclInProgress, and ncclCommGetAsyncError
// reports its completion once all ranks of the communicator have made theirs. The last rank does the work. These are errors on all
// ranks: calls that do not match, calls before the previous one is complete, and work of several communicators on one GPU that
// nothing keeps in the order of the calls. Aborting waits until the streams have finished the communicator's work; communicators
// aborted in a group are all informed first. If the streams never finish, the program ends. Aborting or destroying a communicator
// leaves its GPU as the thread's current one.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
struct ncclConfig_t {
  unsigned magic;
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 0xcafebeef, INT_MIN }
enum ncclDataType_t { ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };
/// ncclRedOpCreatePreMulSum makes all operations except ncclSum.
enum ncclRedOp_t { ncclSum = 0, ncclMaxRedOp = INT_MAX };
enum ncclScalarResidence_t { ncclScalarHostImmediate = 1 };

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                                      ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);

namespace simt {

/// How NCCL behaves for the calling thread.
struct Nccl {
  enum class Fault {
    none,
    never_comes,   ///< this rank's next call is lost and never completes on any rank
    stuck,         ///< the next call of all ranks succeeds, and its work never completes on their streams
    remote_error,  ///< this rank's next call ends with an error on all ranks
    // faults of the next communicator that this rank begins to connect
    no_connection,   ///< it fails; the other ranks wait for ever
    never_connects,  ///< all ranks wait for ever
  };
  const char* load_error = nullptr;
  int version = 22809;
  Fault fault = Fault::none;   ///< occurs after calls_before_fault more calls
  int calls_before_fault = 0;  ///< connecting counts as a call
};
extern thread_local Nccl nccl;

/// Returns the number of communicators that are neither destroyed nor aborted.
int nccl_communicators();

}  // namespace simt
