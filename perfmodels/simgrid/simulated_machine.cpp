// simulated_machine.cpp: replaces the library's calls to the machine by those of the simulated one. The program is linked with
// --wrap for each name below (see CMakeLists.txt), so the library's own objects do not change. Every rank has its own copy of this
// file's variables, because SMPI loads the program once per rank.
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
#include <utility>
#include <vector>

namespace {

struct Look {
  double time;          // simulated time of the last look at the request
  bool tested = false;  // tested, but not complete
};

std::unordered_map<const MPI_Request*, Look> looked_at;   // requests in flight
std::vector<MPI_Request*> tested;                         // requests in flight that were tested but not complete
std::unordered_map<const MPI_Request*, MPI_Status> done;  // completed by a wait, but not yet reported to the caller
bool untold = false;                                      // a test has completed a request other than its own

/// Returns a cancelled request.
MPI_Request cancelled() {
  static MPI_Request only = MPI_REQUEST_NULL;
  if (only == MPI_REQUEST_NULL) {
    MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &only);
    MPI_Cancel(&only);
  }
  return only;
}

/// Waits for a request of `tested` and removes it. With `at_once`, does not wait, and returns false if no request is complete.
bool wait_for_tested(bool at_once) {
  static std::vector<MPI_Request> requests;
  requests.clear();
  for (const MPI_Request* request : tested) requests.push_back(*request);
  if (at_once) requests.push_back(cancelled());
  int index = MPI_UNDEFINED;
  MPI_Status status;
  MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, &status);
  if (index == MPI_UNDEFINED) {
    sg_actor_yield();  // clears the wait; SimGrid 3.32 keeps it if a wait throws
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

/// Replaces std::chrono::steady_clock::now; returns the simulated time.
std::chrono::steady_clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  const std::chrono::duration<double> since_start(simgrid_get_clock());
  return std::chrono::steady_clock::time_point(std::chrono::duration_cast<std::chrono::steady_clock::duration>(since_start));
}

/// Gives the simulated host's name up to its first dot: the ranks of "node3.0" to "node3.7" are on one node.
int __wrap_gethostname(char* name, size_t length) {
  const std::string_view host(sg_host_self_get_name());
  const std::string_view node = host.substr(0, host.find('.'));
  if (node.size() >= length) return -1;
  std::memcpy(name, node.data(), node.size());
  name[node.size()] = '\0';
  return 0;
}

/// Fails, because sockets and caches of the real machine say nothing about the simulated one.
int __wrap_hwloc_topology_load(hwloc_topology_t) { return -1; }

// Requests that MPI_Test completes stay in lists that SimGrid 3.32 searches from end to end. Requests that a wait completes do not.
// So a test is a wait that returns at once, because it includes a cancelled request. One wait serves all requests that were tested
// without success, and only if time has passed. Polling takes no simulated time and would never end. A rank that gives way
// therefore waits until one of these requests is complete, as infinitely fast polling would. It polls once more before that if a
// test has completed another request than its own: the caller may have asked about that one before.

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
      untold = untold || done.size() > done.count(request);
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
  if (tested.empty() || std::exchange(untold, false)) return;
  wait_for_tested(false);
  for (const MPI_Request* other : tested) looked_at[other].time = simgrid_get_clock();
}

/// Runs SMPI's blocking allreduce at once, with the algorithm that Open MPI would choose. SMPI's nonblocking one sends all data
/// from every rank to every other. The additions cost a pass over the data.
int __wrap_MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                          MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  int size = 0;
  MPI_Type_size(type, &size);
  smpi_execute_flops(3.0 * size * count);
  return MPI_Allreduce(from, to, count, type, operation, comm);
}

}  // extern "C"
