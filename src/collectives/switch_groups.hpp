// switch_groups.hpp: the groups that nodes form by their switches, for exchanges along them. The elements are cut into as many
// parts as the smallest group has nodes. Part p belongs to the p-th rank of every group. Other ranks of larger groups give their
// entries and receive the result.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace weir {

/// The groups of the ranks with my local rank, one per node. Immutable.
class SwitchGroups {
 public:
  /// Requires a topology for which find_switch_groups() finds groups, and a local rank that every node has.
  explicit SwitchGroups(const Topology& topology);

  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] int parts() const { return parts_; }
  /// Returns the number of ranks of the largest group.
  [[nodiscard]] int largest_group() const { return largest_group_; }
  /// Returns my own part, or -1 for ranks that own none.
  [[nodiscard]] int mine() const { return mine_; }
  /// Return the ranks of my group, and the owners of my part in all groups, as ascending ranks of the communicator.
  [[nodiscard]] std::span<const int> members() const { return members_; }
  [[nodiscard]] std::span<const int> counterparts() const { return counterparts_; }

 private:
  int groups_, parts_, largest_group_, mine_ = -1;
  std::vector<int> members_, counterparts_;
};

/// Returns how many nodes each group has, or an empty vector if there are no groups. There are groups if the switches of all nodes
/// are known, there are several switches, and one of them has several nodes. The same on every rank.
[[nodiscard]] std::vector<int> switch_group_sizes(const Topology& topology);

/// Returns nullptr if there are no groups.
[[nodiscard]] std::shared_ptr<const SwitchGroups> find_switch_groups(const Topology& topology);

/// Returns the groups as text, or why there are no groups, as the end of "hi_oktopk ...".
[[nodiscard]] std::string switch_groups_text(const Topology& topology);

/// Returns the share that `part` has of k entries in iteration `iteration`. It is proportional, up to one, to `counts`, the entries
/// that all groups together have in each part. The shares add up to k, or to 0 if there are no entries. The remainder goes to
/// another part each iteration: with k > 0, every part that keeps having entries has had a share within as many iterations as there
/// are parts. If every group has k entries, no share exceeds what the part's sum has.
[[nodiscard]] std::int64_t share_by_counts(std::int64_t k, std::span<const std::uint64_t> counts, int part, std::int64_t iteration);

/// Returns k for the exchange among groups of at most `largest` entries each, so that a group sends at most 3 k entries: k, or less
/// if a group has more than k entries.
[[nodiscard]] std::int64_t k_across_groups(std::int64_t k, std::int64_t largest, int groups);

}  // namespace weir
