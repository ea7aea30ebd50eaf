// What the library asks of the machine it runs on, answered for the simulated one. Linked with --wrap for each name below (see
// CMakeLists.txt), so that the library's own objects stay as they are. Every rank has a copy of this file's variables: SMPI loads
// the program once per rank.
#include <hwloc.h>
#include <mpi.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>

#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

struct Awaited {
  MPI_Request* request;
  MPI_Status status;
};
std::vector<Awaited> unfinished;  // tested in vain since the last wait
std::vector<Awaited> finished;    // by a wait, not yet told

/// Takes the entry of `request` out of `list`, if there is one.
bool take(std::vector<Awaited>& list, const MPI_Request* request, MPI_Status* status) {
  for (Awaited& entry : list) {
    if (entry.request != request) continue;
    if (status != MPI_STATUS_IGNORE) *status = entry.status;
    entry = list.back();
    list.pop_back();
    return true;
  }
  return false;
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

// Polling costs simulated time (SMPI's smpi/test) or never ends, and what MPI_Test completes stays in lists that SimGrid 3.32
// searches from end to end. So the first test of a request is in vain, and a rank that yields waits until one of the requests that
// it tested is done: what infinitely fast polling would see.

int __real_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status);
int __wrap_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  *flag = take(finished, request, status) ? 1 : 0;
  if (*flag == 1) return MPI_SUCCESS;
  int code = MPI_SUCCESS;
  if (take(unfinished, request, MPI_STATUS_IGNORE)) code = __real_MPI_Test(request, flag, status);  // a caller that never yields
  if (code == MPI_SUCCESS && *flag == 0) unfinished.push_back({request, {}});
  return code;
}

int __wrap_sched_yield() {
  if (unfinished.empty()) return 0;
  std::vector<MPI_Request> requests;
  for (const Awaited& entry : unfinished) requests.push_back(*entry.request);
  int index = MPI_UNDEFINED;
  Awaited done{};
  MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, &done.status);
  done.request = unfinished[static_cast<std::size_t>(index)].request;
  *done.request = requests[static_cast<std::size_t>(index)];
  finished.push_back(done);
  unfinished.clear();
  return 0;
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
