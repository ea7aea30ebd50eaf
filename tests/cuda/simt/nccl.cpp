// nccl.cpp: NCCL between emulated GPUs.
#include "nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/nccl_library.hpp"
#include "kernels/narrow.hpp"

namespace {

using Fault = simt::Nccl::Fault;

enum class Kind { all_reduce, reduce_scatter, reduce, all_gather, broadcast };

/// The state of a rank's communicator on streams.
struct Presence {
  int device = 0;
  std::atomic<bool> aborted = false;
  std::atomic<int> on_streams = 0;  // unfinished operations
};

/// One rank's call.
struct Call {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  double factor;
  int root;
  cudaStream_t stream;
  std::shared_ptr<Presence> presence{};

  [[nodiscard]] bool fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && factor == other.factor && root == other.root;
  }
};
using Calls = std::vector<Call>;  // a single call, or the calls of a group

std::mutex mutex;
int communicators = 0;

/// An operation that all ranks have called. It is work on each rank's stream, done once all streams have reached it.
struct Operation {
  std::vector<Calls> of_rank;
  std::vector<bool> arrived;
  bool performed = false;
};

/// The shared state of a communicator's ranks.
struct Clique {
  explicit Clique(int ranks) : made(static_cast<std::size_t>(ranks)) {}
  int joined = 0;
  std::vector<int> devices;
  ncclResult_t error = ncclSuccess;
  bool lost = false, stuck = false;     // see simt::Nccl::Fault
  std::atomic<bool> unordered = false;  // an operation began before an earlier one of another communicator had finished
  std::vector<std::deque<Calls>> made;  // by rank: calls that some ranks have not made yet
};
std::map<std::string, std::shared_ptr<Clique>> cliques;  // communicators that some ranks have not joined yet

template <class V>
struct Number {
  static double read(const std::byte* at) {
    V value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(weir::widen(value));
  }
  static void write(std::byte* at, double number) {
    using Wide = std::conditional_t<std::is_same_v<V, double>, double, float>;
    const V value = weir::narrow_to<V>(static_cast<Wide>(number));
    std::memcpy(at, &value, sizeof value);
  }
};
struct Type {
  std::size_t bytes;
  double (*read)(const std::byte*);
  void (*write)(std::byte*, double);
};
Type type_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return {8, Number<double>::read, Number<double>::write};
    case ncclFloat16:
      return {2, Number<weir::float16>::read, Number<weir::float16>::write};
    case ncclBfloat16:
      return {2, Number<weir::bfloat16>::read, Number<weir::bfloat16>::write};
    default:
      return {4, Number<float>::read, Number<float>::write};
  }
}

/// Reduces rank by rank, and rounds to the type after each step.
std::vector<std::byte> sum(const std::vector<Call>& ranks, std::size_t count) {
  const Type type = type_of(ranks[0].type);
  std::vector<std::byte> result(count * type.bytes), term(type.bytes);
  for (const Call& rank : ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const at = result.data() + i * type.bytes;
      const auto* const from = static_cast<const std::byte*>(rank.send) + i * type.bytes;
      type.write(term.data(), type.read(from) * rank.factor);
      type.write(at, &rank == ranks.data() ? type.read(term.data()) : type.read(at) + type.read(term.data()));
    }
  }
  return result;
}

void perform(const std::vector<Call>& ranks) {
  const Call& any = ranks[0];
  const std::size_t size = ranks.size(), bytes = any.count * type_of(any.type).bytes;
  std::vector<std::byte> result;
  if (any.kind == Kind::all_gather) {
    for (const Call& rank : ranks) {
      const auto* const part = static_cast<const std::byte*>(rank.send);
      result.insert(result.end(), part, part + bytes);
    }
  } else if (any.kind == Kind::broadcast) {
    const auto* const data = static_cast<const std::byte*>(ranks[static_cast<std::size_t>(any.root)].send);
    result.assign(data, data + bytes);
  } else {
    result = sum(ranks, any.kind == Kind::reduce_scatter ? any.count * size : any.count);
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (any.kind == Kind::reduce && static_cast<int>(rank) != any.root) continue;
    const bool scatter = any.kind == Kind::reduce_scatter;
    std::memcpy(ranks[rank].receive, result.data() + (scatter ? rank * bytes : 0), scatter ? bytes : result.size());
  }
}

void perform(const Operation& operation) {
  for (std::size_t i = 0; i < operation.of_rank[0].size(); ++i) {
    std::vector<Call> ranks;
    for (const Calls& calls : operation.of_rank) ranks.push_back(calls[i]);
    perform(ranks);
  }
}

/// An operation on a GPU, which runs as long as the token exists.
struct UnderWay {
  const Clique* clique;
  std::weak_ptr<int> token;
};
std::map<int, std::vector<UnderWay>> under_way;  // by device

/// Returns the earlier operations of other communicators.
std::vector<std::weak_ptr<int>> predecessors(const Clique* clique, int device) {
  std::vector<UnderWay>& all = under_way[device];
  std::erase_if(all, [](const UnderWay& one) { return one.token.expired(); });
  std::vector<std::weak_ptr<int>> others;
  for (const UnderWay& one : all) {
    if (one.clique != clique) others.push_back(one.token);
  }
  return others;
}

/// Called when one rank's stream has reached the operation. Returns true once it is done.
bool get_on(Operation& operation, std::size_t rank) {
  operation.arrived[rank] = true;
  if (std::find(operation.arrived.begin(), operation.arrived.end(), false) != operation.arrived.end()) return false;
  if (!std::exchange(operation.performed, true)) perform(operation);
  return true;
}

/// Puts the operation onto all streams. The streams' lock guards it, because their work runs under that lock.
void put_on_streams(const std::shared_ptr<Operation>& operation, const std::shared_ptr<Clique>& clique) {
  for (std::size_t rank = 0; rank < operation->of_rank.size(); ++rank) {
    const Call& any = operation->of_rank[rank].front();
    const auto token = std::make_shared<int>();
    const auto before = predecessors(clique.get(), any.presence->device);
    under_way[any.presence->device].push_back({clique.get(), token});
    ++any.presence->on_streams;
    simt::put(any.stream, [operation, rank, clique, stuck = clique->stuck, presence = any.presence, token, before] {
      if (!presence->aborted && std::any_of(before.begin(), before.end(), [](const auto& one) { return !one.expired(); }))
        clique->unordered = true;
      const bool over = presence->aborted || (!stuck && get_on(*operation, rank));
      if (over) --presence->on_streams;
      return over;
    });
  }
}

/// Takes the oldest calls once all ranks have made them.
void issue_what_is_complete(const std::shared_ptr<Clique>& shared) {
  Clique& clique = *shared;
  while (!clique.lost) {
    for (const auto& made : clique.made) {
      if (made.empty()) return;
    }
    auto operation = std::make_shared<Operation>();
    operation->arrived.resize(clique.made.size());
    for (auto& made : clique.made) {
      operation->of_rank.push_back(std::move(made.front()));
      made.pop_front();
    }
    const Calls& first = operation->of_rank[0];
    for (const Calls& calls : operation->of_rank) {
      const bool fit = std::equal(calls.begin(), calls.end(), first.begin(), first.end(),
                                  [](const Call& a, const Call& b) { return a.fits(b); });
      if (!fit) clique.error = ncclInvalidUsage;
    }
    if (clique.error != ncclSuccess) return;
    put_on_streams(operation, shared);
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank;
  std::vector<double> factors{};  // of the reductions created
  std::shared_ptr<Presence> presence = std::make_shared<Presence>();
};

namespace {

thread_local int group_depth = 0;
thread_local std::map<ncclComm_t, Calls> grouped;
thread_local std::vector<ncclComm_t> aborted_in_group;

ncclResult_t state_of(const ncclComm& comm) {
  const Clique& clique = *comm.clique;
  if (clique.error != ncclSuccess) return clique.error;
  if (clique.unordered) return ncclInvalidUsage;
  const bool complete = clique.joined == static_cast<int>(clique.made.size());
  return complete && clique.made[static_cast<std::size_t>(comm.rank)].empty() ? ncclSuccess : ncclInProgress;
}

Fault next_fault() {
  if (simt::nccl.calls_before_fault-- > 0) return Fault::none;
  simt::nccl.calls_before_fault = 0;
  return std::exchange(simt::nccl.fault, Fault::none);
}

/// Behaves like a kernel that polls whether it is aborted, which it can do only once its stream has reached it.
void end_aborted(ncclComm_t comm) {
  const auto begin = std::chrono::steady_clock::now();
  while (comm->presence->on_streams > 0) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) {
      std::fputs("emulated NCCL: a communicator is aborted whose work comes after work that is never done\n", stderr);
      std::abort();
    }
    simt::finish_everything();
    std::this_thread::yield();
  }
  cudaSetDevice(comm->presence->device);
  const std::scoped_lock lock(mutex);
  --communicators;
  delete comm;
}

ncclResult_t submit(ncclComm_t comm, Calls calls) {
  const std::scoped_lock lock(mutex);
  Clique& clique = *comm->clique;
  if (state_of(*comm) == ncclInProgress) clique.error = ncclInvalidArgument;
  if (clique.error != ncclSuccess) return clique.error;
  const Fault fault = next_fault();
  if (fault == Fault::remote_error) clique.error = ncclRemoteError;
  if (fault == Fault::stuck) clique.stuck = true;
  if (fault == Fault::never_comes) clique.lost = true;
  clique.made[static_cast<std::size_t>(comm->rank)].push_back(std::move(calls));
  issue_what_is_complete(comm->clique);
  return state_of(*comm);
}

ncclResult_t call(ncclComm_t comm, ncclRedOp_t op, Call call) {
  call.presence = comm->presence;
  call.factor = op == ncclSum ? 1 : comm->factors[static_cast<std::size_t>(op) - 1];
  if (group_depth > 0) {
    grouped[comm].push_back(call);
    return ncclSuccess;
  }
  return submit(comm, {call});
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an emulated error";
  }
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  const std::scoped_lock lock(mutex);
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "clique %d", made++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  int device = 0;
  cudaGetDevice(&device);
  const Fault fault = next_fault();
  if (fault == Fault::no_connection) return ncclUnhandledCudaError;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Clique>& clique = cliques[id.internal];
  if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
  if (static_cast<int>(clique->made.size()) != ranks) clique->error = ncclInvalidArgument;
  for (const int other : clique->devices) {
    if (other == device) clique->error = ncclInvalidUsage;
  }
  clique->devices.push_back(device);
  *comm = new ncclComm{clique, rank};
  (*comm)->presence->device = device;
  ++communicators;
  if (fault == Fault::never_connects) return ncclInProgress;
  if (++clique->joined == ranks) cliques.erase(id.internal);
  return state_of(**comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::scoped_lock lock(mutex);
  *error = state_of(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  cudaSetDevice(comm->presence->device);
  const std::scoped_lock lock(mutex);
  return state_of(*comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  cudaSetDevice(comm->presence->device);
  const std::scoped_lock lock(mutex);
  --communicators;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->presence->aborted = true;
  if (group_depth > 0)
    aborted_in_group.push_back(comm);
  else
    end_aborted(comm);
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t, ncclComm_t comm) {
  comm->factors.push_back(type_of(type).read(static_cast<const std::byte*>(scalar)));
  *op = static_cast<ncclRedOp_t>(comm->factors.size());
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t comm) {
  comm->factors.pop_back();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto& [comm, calls] : std::exchange(grouped, {})) {
    const ncclResult_t one = submit(comm, std::move(calls));
    if (result == ncclSuccess || result == ncclInProgress) result = one;
  }
  for (ncclComm_t const comm : std::exchange(aborted_in_group, {})) end_aborted(comm);
  return result;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, op, {Kind::all_reduce, send, receive, count, type, 1, 0, stream});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, op, {Kind::reduce_scatter, send, receive, count, type, 1, 0, stream});
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, op, {Kind::reduce, send, receive, count, type, 1, root, stream});
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, ncclSum, {Kind::all_gather, send, receive, count, type, 1, 0, stream});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, ncclSum, {Kind::broadcast, send, receive, count, type, 1, root, stream});
}

namespace simt {

thread_local Nccl nccl;

int nccl_communicators() {
  const std::scoped_lock lock(mutex);
  return communicators;
}

}  // namespace simt

namespace weir::cuda {

const NcclLibrary& nccl_library() {
  thread_local NcclLibrary library{
      {ncclGetErrorString, ncclGetUniqueId, ncclCommInitRankConfig, ncclCommGetAsyncError, ncclCommFinalize, ncclCommDestroy,
       ncclCommAbort, ncclRedOpCreatePreMulSum, ncclRedOpDestroy, ncclGroupStart, ncclGroupEnd, ncclAllReduce, ncclReduceScatter,
       ncclReduce, ncclAllGather, ncclBroadcast},
      0,
      {}};
  library.version = simt::nccl.version;
  library.why_not = reason_without_nccl(simt::nccl.load_error, simt::nccl.version);
  return library;
}

}  // namespace weir::cuda
