// What the library asks of the machine it runs on, answered for the simulated one. Linked with --wrap for each name below (see
// CMakeLists.txt), so that the library's own objects stay as they are. Every rank has a copy of this file's variables: SMPI loads
// the program once per rank.
#include <hwloc.h>
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>

#include <chrono>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

struct Look {
  double time;          // simulated, of the last look at the request
  bool tested = false;  // in vain
};

std::unordered_map<const MPI_Request*, Look> looked_at;   // requests in flight
std::vector<MPI_Request*> tested;                         // of these, tested in vain
std::unordered_map<const MPI_Request*, MPI_Status> done;  // by a wait, not yet told

/// A request that has been cancelled.
MPI_Request cancelled() {
  static MPI_Request only = MPI_REQUEST_NULL;
  if (only == MPI_REQUEST_NULL) {
    MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &only);
    MPI_Cancel(&only);
  }
  return only;
}

/// Takes what was waited for out of `tested`. `at_once`: does not wait, and returns false where none is done.
bool wait_for_tested(bool at_once) {
  static std::vector<MPI_Request> requests;
  requests.clear();
  for (const MPI_Request* request : tested) requests.push_back(*request);
  if (at_once) requests.push_back(cancelled());
  int index = MPI_UNDEFINED;
  MPI_Status status;
  MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, &status);
  if (index == MPI_UNDEFINED) {
    sg_actor_yield();  // forgets the wait, which SimGrid 3.32 does not when one throws
    return false;
  }
  MPI_Request* const request = tested[static_cast<std::size_t>(index)];
  *request = requests[static_cast<std::size_t>(index)];
  done.insert_or_assign(request, status);
  looked_at.erase(request);
  tested[static_cast<std::size_t>(index)] = tested.back();
  tested.pop_back();
  return true;
}

}  // namespace

extern "C" {

/// std::chrono::steady_clock::now: the simulated time.
std::chrono::steady_clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  const std::chrono::duration<double> since_start(simgrid_get_clock());
  return std::chrono::steady_clock::time_point(std::chrono::duration_cast<std::chrono::steady_clock::duration>(since_start));
}

/// The simulated host's name up to its first dot: the ranks of "node3.0" to "node3.7" are on one node.
int __wrap_gethostname(char* name, size_t length) {
  const std::string_view host(sg_host_self_get_name());
  const std::string_view node = host.substr(0, host.find('.'));
  if (node.size() >= length) return -1;
  std::memcpy(name, node.data(), node.size());
  name[node.size()] = '\0';
  return 0;
}

/// The machine that simulates has nothing to say about sockets and caches of the simulated one.
int __wrap_hwloc_topology_load(hwloc_topology_t) { return -1; }

// What MPI_Test completes stays in lists that SimGrid 3.32 searches from end to end; what a wait completes does not. So tests are
// waits that end at once, since a cancelled request is among what they wait for: one for all requests that were tested in vain, and
// only where time has passed. Polling takes no time, and would never end: a rank that gives way waits until one of these is done,
// which is what infinitely fast polling would see.

int __real_MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request);
int __wrap_MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  looked_at.insert_or_assign(request, Look{simgrid_get_clock()});
  return __real_MPI_Isend(data, count, type, to, tag, comm, request);
}

int __real_MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request);
int __wrap_MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  looked_at.insert_or_assign(request, Look{simgrid_get_clock()});
  return __real_MPI_Irecv(data, count, type, from, tag, comm, request);
}

int __wrap_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const double now = simgrid_get_clock();
  const auto look = looked_at.find(request);
  if (look != looked_at.end()) {
    if (!look->second.tested) tested.push_back(request);
    look->second.tested = true;
    if (look->second.time < now) {
      while (!tested.empty() && wait_for_tested(true)) {
      }
      for (const MPI_Request* other : tested) looked_at[other].time = now;
    }
  }
  const auto found = done.find(request);
  *flag = found != done.end() || *request == MPI_REQUEST_NULL ? 1 : 0;
  if (found == done.end()) return MPI_SUCCESS;
  if (status != MPI_STATUS_IGNORE) *status = found->second;
  done.erase(found);
  return MPI_SUCCESS;
}

void __wrap__ZN4weir8give_wayEv() {
  if (tested.empty()) return;
  wait_for_tested(false);
  for (const MPI_Request* other : tested) looked_at[other].time = simgrid_get_clock();
}

/// SMPI's own nonblocking allreduce sends all of the data from every rank to every other. Instead its blocking one runs at once,
/// with the algorithm that Open MPI would choose; the additions cost a pass over the data.
int __wrap_MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                          MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  int size = 0;
  MPI_Type_size(type, &size);
  smpi_execute_flops(3.0 * size * count);
  return MPI_Allreduce(from, to, count, type, operation, comm);
}

}  // extern "C"
