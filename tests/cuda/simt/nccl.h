// nccl.h: enough of NCCL to test what is built on it where NCCL is not installed. Takes the place of NCCL's header beside the
// emulated cuda_runtime.h.
//
// Ranks are threads, each on a GPU of its own. Communicators are nonblocking ones: a call returns ncclInProgress and is done, seen
// by ncclCommGetAsyncError, once all ranks of the communicator have made theirs; the last one does the work. Calls that do not fit
// together, or come before the last one is done, are errors on all ranks; so is work of several communicators on one GPU that
// nothing keeps in the order of the calls. Aborting waits until the streams are through with the communicator's work, all those
// aborted in a group being told first; it ends the program where that never comes. It, and the end of a communicator, leave the
// thread with that one's GPU.
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
/// Others than ncclSum are made by ncclRedOpCreatePreMulSum.
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

/// What NCCL is like for the calling thread.
struct Nccl {
  enum class Fault {
    none,
    never_comes,   ///< this rank's next call is lost: it is never done on any rank
    stuck,         ///< the next call of all ranks is made, and then waits on their streams for ever
    remote_error,  ///< this rank's next call ends in an error of all ranks
    // of the next communicator that this rank begins to connect
    no_connection,   ///< an error; the others wait for ever
    never_connects,  ///< all ranks wait for ever
  };
  const char* load_error = nullptr;
  int version = 22809;
  Fault fault = Fault::none;   ///< taken by the next call but so many
  int calls_before_fault = 0;  ///< connecting counts as one
};
extern thread_local Nccl nccl;

/// Communicators that are neither destroyed nor aborted.
int nccl_communicators();

}  // namespace simt
