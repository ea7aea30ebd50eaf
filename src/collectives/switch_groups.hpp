// switch_groups.hpp: the groups that nodes form by their switches, for exchanges that go along them. The elements are cut into as
// many parts as the smallest group has nodes; part p belongs to the p-th rank of every group. Other ranks of larger groups give
// their entries and receive the result.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace weir {

/// Groups of the ranks with my local rank, one of each node. Immutable.
class SwitchGroups {
 public:
  /// For topologies of which find_switch_groups() says that they have groups, and ranks whose local rank every node has.
  explicit SwitchGroups(const Topology& topology);

  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] int parts() const { return parts_; }
  /// Ranks of the largest.
  [[nodiscard]] int largest_group() const { return largest_group_; }
  /// My own part, -1 for ranks that own none.
  [[nodiscard]] int mine() const { return mine_; }
  /// Ranks of my group, and the owners of my part in all groups: ranks of the communicator, ascending.
  [[nodiscard]] std::span<const int> members() const { return members_; }
  [[nodiscard]] std::span<const int> counterparts() const { return counterparts_; }

 private:
  int groups_, parts_, largest_group_, mine_ = -1;
  std::vector<int> members_, counterparts_;
};

/// Returns how many nodes each group has; empty if there are no groups. There are groups if the switches of all nodes are known,
/// there are several switches, and one of them has several nodes. The same on every rank.
[[nodiscard]] std::vector<int> switch_group_sizes(const Topology& topology);

/// Returns nullptr if there are no groups.
[[nodiscard]] std::shared_ptr<const SwitchGroups> find_switch_groups(const Topology& topology);

/// Returns which groups there are, or why there are no groups, as the end of "hi_oktopk ...".
[[nodiscard]] std::string switch_groups_text(const Topology& topology);

/// Part `part`'s share of k entries in iteration `iteration`: proportional to `counts`, the entries that all groups together have
/// in each part, up to one; the shares of all parts add up to k, or to 0 where there are no entries. What does not divide evenly
/// goes to another part each iteration: with k > 0, every part that keeps having entries has had a share within as many
/// iterations as there are parts. Where every group has k entries, no share exceeds what the part's sum has.
[[nodiscard]] std::int64_t share_by_counts(std::int64_t k, std::span<const std::uint64_t> counts, int part, std::int64_t iteration);

/// k for the exchange among groups of at most `largest` entries each, so that a group sends no more than 3 k entries: at most k,
/// less only where a group has more than k.
[[nodiscard]] std::int64_t k_across_groups(std::int64_t k, std::int64_t largest, int groups);

}  // namespace weir
