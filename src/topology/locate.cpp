// locate.cpp: where this process runs, from the host name, SLURM and hwloc.
#include <hwloc.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/host.hpp"
#include "topology/slurm.hpp"
#include "topology/topology.hpp"

namespace weir {

namespace {

using Hwloc = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

/// Loads only the kinds of objects that Location has: loading all of a large machine, above all its devices, takes seconds.
Hwloc load_hwloc() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {nullptr, &hwloc_topology_destroy};
  Hwloc topology(made, &hwloc_topology_destroy);
  hwloc_topology_set_all_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(made) != 0) topology.reset();
  return topology;
}

/// Returns the index of the smallest object of `type` that holds all of `cpus`, or -1 if there is no such object. NUMA nodes may
/// overlap: one for the memory of a socket, another for its high-bandwidth memory, a third for memory behind the whole machine.
std::int32_t index_around(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t cpus) {
  hwloc_obj_t smallest = nullptr;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    if (!hwloc_bitmap_isincluded(cpus, object->cpuset)) continue;
    if (!smallest || hwloc_bitmap_weight(object->cpuset) < hwloc_bitmap_weight(smallest->cpuset)) smallest = object;
  }
  return smallest ? static_cast<std::int32_t>(smallest->logical_index) : -1;
}

/// Returns the cores that overlap `cpus`. Empty if a number is too large for a CoreSet: an incomplete set would be wrong.
CoreSet cores_in(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  CoreSet cores;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (!hwloc_bitmap_intersects(cpus, core->cpuset)) continue;
    if (core->logical_index >= static_cast<unsigned>(CoreSet::most)) return {};
    cores.insert(static_cast<int>(core->logical_index));
  }
  return cores;
}

void locate_in_node(Location& location) {
  const Hwloc topology = load_hwloc();
  const CpuSet cpus(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (!topology || !cpus) return;
  const hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology.get());
  const bool known = hwloc_get_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_PROCESS) == 0;
  if (!known) hwloc_bitmap_copy(cpus.get(), all);
  hwloc_bitmap_and(cpus.get(), cpus.get(), all);
  if (hwloc_bitmap_iszero(cpus.get())) return;
  location.socket = index_around(topology.get(), HWLOC_OBJ_PACKAGE, cpus.get());
  location.numa = index_around(topology.get(), HWLOC_OBJ_NUMANODE, cpus.get());
  location.l3 = index_around(topology.get(), HWLOC_OBJ_L3CACHE, cpus.get());
  if (known) location.cores = cores_in(topology.get(), cpus.get());
}

}  // namespace

bool bind_this_thread(int core) {
  const Hwloc topology = load_hwloc();
  const CpuSet cpus(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (!topology || !cpus) return false;
  const hwloc_obj_t object = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_CORE, static_cast<unsigned>(core));
  if (object == nullptr || hwloc_get_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_THREAD) != 0) return false;
  hwloc_bitmap_and(cpus.get(), cpus.get(), object->cpuset);  // keep the core's processors that the process may use
  return !hwloc_bitmap_iszero(cpus.get()) && hwloc_set_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_THREAD) == 0;
}

std::vector<std::vector<int>> processors_by_core() {
  const Hwloc topology = load_hwloc();
  const CpuSet cpus(hwloc_bitmap_alloc(), &hwloc_bitmap_free), part(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (!topology || !cpus || !part || hwloc_get_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_PROCESS) != 0) return {};
  std::vector<std::vector<int>> cores;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr;) {
    hwloc_bitmap_and(part.get(), cpus.get(), core->cpuset);
    if (hwloc_bitmap_iszero(part.get())) continue;
    std::vector<int>& processors = cores.emplace_back();
    for (int cpu = hwloc_bitmap_first(part.get()); cpu >= 0; cpu = hwloc_bitmap_next(part.get(), cpu)) processors.push_back(cpu);
  }
  return cores;
}

Location locate() {
  Location location;
  const std::string host = host_name();
  store_name(location.host, host);
  store_name(location.boot, boot_id());
  store_name(location.switch_address, slurm_switch_address(host));
  location.quota = cpu_quota();
  locate_in_node(location);
  return location;
}

}  // namespace weir
