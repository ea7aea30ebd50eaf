// topology.hpp: who sits where. Discovery on one rank (hwloc, SLURM), then pure arithmetic over all ranks' locations.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <weir/weir.hpp>

namespace weir {

/// Where one rank runs. Plain bytes, exchanged by an allgather. Numbers are logical indices within the node, -1 where the rank is
/// not bound tightly enough to say (or hwloc does not know).
struct Location {
  std::array<char, 64> host{};            ///< node name, zero-terminated; longer names keep their tail
  std::array<char, 128> switch_address{}; ///< SLURM_TOPOLOGY_ADDR without the node, "spine.leaf0"; empty when unknown
  std::int32_t socket = -1;
  std::int32_t numa = -1;
  std::int32_t l3 = -1;
};
static_assert(std::is_trivially_copyable_v<Location>);

/// This process's own location, from hwloc's view of the current binding, the host name, and SLURM's environment.
[[nodiscard]] Location locate();

/// A made-up machine for tests, e.g. synthetic_machine("switch:2 node:2 socket:2 rank:3"): 2 switches of 2 nodes of 2 sockets of 3
/// ranks. Counts multiply outward to inward; levels may be left out; "rank" is last. Also accepts a list of node
/// sizes, "nodes:3,1,2": three nodes with 3, 1 and 2 ranks. Throws Error(WEIR_ERR_ARGUMENT) naming what is wrong.
[[nodiscard]] std::vector<Location> synthetic_machine(std::string_view description);

/// All ranks' places and the groups that follow from them. Immutable.
class Topology {
 public:
  Topology(std::vector<Location> locations, int rank);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(locations_.size()); }
  /// Innermost level that ranks a and b share.
  [[nodiscard]] Level level(int a, int b) const;
  /// Nodes are numbered by their lowest rank.
  [[nodiscard]] int node_count() const noexcept;
  [[nodiscard]] int node_of(int rank) const;
  /// Position of `rank` among the ranks of its node, in rank order.
  [[nodiscard]] int local_rank(int rank) const;
  /// Ranks on my node, ascending, me included.
  [[nodiscard]] std::span<const int> node_peers() const noexcept;
  /// Ranks with my local rank on every node that has one, ascending, me included.
  [[nodiscard]] std::span<const int> local_rank_peers() const noexcept;
  /// The lowest rank of each node, ascending.
  [[nodiscard]] std::span<const int> leaders() const noexcept;
  /// True when all nodes hold the same number of ranks.
  [[nodiscard]] bool uniform() const noexcept;
  /// Indented tree for people: switch groups, nodes, sockets, NUMA, L3, ranks.
  [[nodiscard]] std::string tree() const;

 private:
  std::vector<Location> locations_;
  int rank_;
  std::vector<int> node_of_, local_rank_;
  std::vector<int> node_peers_, local_rank_peers_, leaders_;
};

}  // namespace weir
