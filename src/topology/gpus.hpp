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

/// The GPUs that one rank of a node sees. Plain bytes, exchanged by an allgather.
struct SeenGpus {
  static constexpr int most = 32;
  std::int32_t numa = -1;  ///< of the rank, as Location::numa
  std::int32_t count = 0;  ///< of `gpus`; a rank's number for a GPU is its index there
  std::array<SeenGpu, most> gpus{};
};

/// Returns, for every rank of one node in rank order, its number for the GPU that it should use; -1 for a rank that sees no GPU.
/// Each rank in turn takes a GPU with the fewest ranks; among those, one on its own NUMA node; among those, the first.
[[nodiscard]] std::vector<int> assign_gpus(std::span<const SeenGpus> ranks);

/// Returns the NUMA node that the PCI device is attached to, as Location::numa; -1 if hwloc does not know.
[[nodiscard]] std::int32_t numa_of_pci_device(const char* bus_id);

}  // namespace weir
