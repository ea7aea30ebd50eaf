// topology.hpp: where ranks run. Discovery on one rank (hwloc, SLURM), then pure arithmetic over all ranks' locations.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>
#include <weir/weir.hpp>

#include "base/control_groups.hpp"
#include "topology/cores.hpp"

namespace weir {

/// Where one rank runs. Plain bytes, exchanged by an allgather. Numbers are logical indices within the node; -1 if the rank is not
/// bound to one part, or hwloc does not know. Indices count the whole machine, not only the part that a cgroup allows, so that they
/// mean the same on every rank of a node.
struct Location {
  std::array<char, 64> host{};             ///< node name, see store_name()
  std::array<char, 40> boot{};             ///< the kernel's boot id, unique to the machine; empty if unknown
  std::array<char, 128> switch_address{};  ///< SLURM's topology address without the node, "spine.leaf0"; empty if unknown
  std::int32_t socket = -1;
  std::int32_t numa = -1;
  std::int32_t l3 = -1;
  CoreSet cores{};   ///< that the rank's threads may use
  CpuQuota quota{};  ///< of a control group, which ranks may share
};
static_assert(std::is_trivially_copyable_v<Location>);

/// Fills `field` (16 bytes or more) with `name` and zeros. A name that does not fit keeps its beginning and ends in '~' and a hash
/// of the whole name, so that different names stay different.
void store_name(std::span<char> field, std::string_view name) noexcept;
/// Returns the name that store_name() put into `field`.
[[nodiscard]] std::string_view stored_name(std::span<const char> field) noexcept;

/// Returns this process's own location, from hwloc's view of the current binding, the host name, and what SLURM says of switches
/// (slurm.hpp). Takes milliseconds: call it once per communicator. Never throws for lack of information: what is unknown is empty
/// or
/// -1.
[[nodiscard]] Location locate();

/// Makes up a machine for tests. For example, synthetic_machine("switch:2 node:2 socket:2 rank:3") has 2 switches of 2 nodes of 2
/// sockets of 3 ranks, 24 ranks in all. The levels are switch, node, socket, numa, l3 and rank, each at most once and in this
/// order, with counts from 1 up. "rank" is required. Other levels may be left out: there is then one node (per switch), and the
/// rest is unknown. Also accepts a list of node sizes, "nodes:3,1,2": three nodes with 3, 1 and 2 ranks; and one of switch sizes,
/// "switches:2,1 rank:3": two nodes on the first switch, one on the second, 3 ranks on each. Nodes are called n0, n1, ..., switches
/// spine.leaf0, spine.leaf1, ... Throws Error(WEIR_ERR_ARGUMENT) naming what is wrong.
[[nodiscard]] std::vector<Location> synthetic_machine(std::string_view description);

/// All ranks' places and the groups that follow from them. Immutable, thus safe to share between threads.
class Topology {
 public:
  /// `locations` of all ranks in rank order; `rank` is this rank. Throws Error(WEIR_ERR_ARGUMENT) if there are no locations or
  /// `rank` is not one of them.
  Topology(std::vector<Location> locations, int rank);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(locations_.size()); }
  [[nodiscard]] const Location& location(int rank) const { return locations_.at(static_cast<std::size_t>(rank)); }
  /// Returns the innermost level that ranks a and b are known to share. Ranks share a node if their host names and boot ids are
  /// equal, and a switch group if the switch addresses of their nodes are, down to the leaf. A node has the first address that any
  /// of its ranks knows. This and the functions below throw for ranks outside 0 .. size - 1.
  [[nodiscard]] Level level(int a, int b) const;
  /// Nodes are numbered by their lowest rank.
  [[nodiscard]] int node_count() const noexcept;
  [[nodiscard]] int node_of(int rank) const;
  /// Returns the node of each rank.
  [[nodiscard]] std::span<const int> nodes() const noexcept { return node_of_; }
  /// Returns the position of `rank` among the ranks of its node, in rank order.
  [[nodiscard]] int local_rank(int rank) const;
  /// Returns the ranks on this rank's node, ascending, this one included.
  [[nodiscard]] std::span<const int> node_peers() const noexcept;
  /// Returns the ranks with this rank's local rank on every node that has one, ascending, this one included.
  [[nodiscard]] std::span<const int> local_rank_peers() const noexcept;
  /// Returns the lowest rank of each node, ascending.
  [[nodiscard]] std::span<const int> leaders() const noexcept;
  /// The number of switch groups whose address is known, and the group of `rank`'s node, numbered in order of appearance; -1 if its
  /// address is unknown.
  [[nodiscard]] int switch_count() const noexcept { return static_cast<int>(switch_names_.size()); }
  [[nodiscard]] int switch_of(int rank) const { return switch_of_node_[static_cast<std::size_t>(node_of(rank))]; }
  /// Returns the number of ranks of the smallest and of the largest node.
  [[nodiscard]] int smallest_node() const noexcept;
  [[nodiscard]] int largest_node() const noexcept;
  /// Returns the machine as an indented tree: switch groups, nodes, sockets, NUMA nodes, L3 caches and their ranks. Leaves out what
  /// is unknown, and parts that hold the same ranks as what they are part of.
  [[nodiscard]] std::string tree() const;

 private:
  std::vector<Location> locations_;
  int rank_;
  std::vector<int> node_of_, local_rank_, node_size_;
  std::vector<int> switch_of_node_;  // index into switch_names_; -1: unknown
  std::vector<std::string> switch_names_;
  std::vector<int> node_peers_, local_rank_peers_, leaders_;
};

}  // namespace weir
