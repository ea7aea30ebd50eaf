#include "topology/gpus.hpp"

#include <hwloc.h>

#include <map>
#include <memory>
#include <tuple>

namespace weir {

std::vector<int> assign_gpus(std::span<const SeenGpus> ranks) {
  std::map<std::array<char, 16>, int> users;
  std::vector<int> chosen;
  for (const SeenGpus& rank : ranks) {
    int best = -1;
    const auto cost = [&](int gpu) {
      const SeenGpu& seen = rank.gpus[static_cast<std::size_t>(gpu)];
      return std::tuple(users[seen.bus_id], seen.numa != rank.numa, gpu);
    };
    for (int gpu = 0; gpu < rank.count; ++gpu) {
      if (best < 0 || cost(gpu) < cost(best)) best = gpu;
    }
    if (best >= 0) ++users[rank.gpus[static_cast<std::size_t>(best)].bus_id];
    chosen.push_back(best);
  }
  return chosen;
}

std::int32_t numa_of_pci_device(const char* bus_id) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return -1;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(made, &hwloc_topology_destroy);
  // Disable hwloc's library for PCI devices, which leaks: the kernel's own list is enough. Leave out the operating system's
  // devices: looking for those wakes up every driver that hwloc knows.
  hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(made) != 0) return -1;
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(made, bus_id);
  const hwloc_obj_t around = device != nullptr ? hwloc_get_non_io_ancestor_obj(made, device) : nullptr;
  if (around == nullptr || around->nodeset == nullptr || hwloc_bitmap_weight(around->nodeset) != 1) return -1;
  const hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(made, static_cast<unsigned>(hwloc_bitmap_first(around->nodeset)));
  return node != nullptr ? static_cast<std::int32_t>(node->logical_index) : -1;
}

}  // namespace weir
