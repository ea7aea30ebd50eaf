// gpus.hpp: which rank works with which GPU.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

/// A GPU as one process sees it.
struct SeenGpu {
  std::array<char, 16> bus_id{};  ///< "0000:3b:00.0": the same for every process of the node
  std::int32_t numa = -1;         ///< as Location::numa; -1: unknown
};

/// What one rank of a node sees. Plain bytes, exchanged by an allgather.
struct SeenGpus {
  static constexpr int most = 32;
  std::int32_t numa = -1;  ///< of the rank, as Location::numa
  std::int32_t count = 0;  ///< of `gpus`; a rank's number for a GPU is its place there
  std::array<SeenGpu, most> gpus{};
};

/// For every rank of one node, in rank order, its number for the GPU it should use, -1 for a rank that sees none: each in turn
/// takes one of those with the fewest ranks, of these one on its own NUMA node, of these the first.
[[nodiscard]] std::vector<int> assign_gpus(std::span<const SeenGpus> ranks);

/// The NUMA node that the PCI device is attached to, as Location::numa; -1 where hwloc does not know.
[[nodiscard]] std::int32_t numa_of_pci_device(const char* bus_id);

}  // namespace weir
