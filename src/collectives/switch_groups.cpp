#include "collectives/switch_groups.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace weir {

namespace {

std::vector<int> nodes_of_groups(const Topology& topology) {
  std::vector<int> nodes(static_cast<std::size_t>(topology.switch_count()));
  for (const int leader : topology.leaders()) {
    if (const int group = topology.switch_of(leader); group >= 0) ++nodes[static_cast<std::size_t>(group)];
  }
  return nodes;
}

/// Returns the first node whose switch is not known, or -1.
int first_unknown(const Topology& topology) {
  for (const int leader : topology.leaders()) {
    if (topology.switch_of(leader) < 0) return leader;
  }
  return -1;
}

}  // namespace

SwitchGroups::SwitchGroups(const Topology& topology) : groups_(topology.switch_count()) {
  const std::vector<int> nodes = nodes_of_groups(topology);
  parts_ = *std::min_element(nodes.begin(), nodes.end());
  largest_group_ = *std::max_element(nodes.begin(), nodes.end());
  const int my_group = topology.switch_of(topology.rank());
  for (const int rank : topology.local_rank_peers()) {
    if (topology.switch_of(rank) == my_group) members_.push_back(rank);
  }
  const auto place = std::lower_bound(members_.begin(), members_.end(), topology.rank()) - members_.begin();
  if (place >= parts_) return;
  mine_ = static_cast<int>(place);
  std::vector<int> passed(nodes.size());
  for (const int rank : topology.local_rank_peers()) {
    if (passed[static_cast<std::size_t>(topology.switch_of(rank))]++ == mine_) counterparts_.push_back(rank);
  }
}

std::vector<int> switch_group_sizes(const Topology& topology) {
  if (first_unknown(topology) >= 0 || topology.switch_count() < 2 || topology.node_count() == topology.switch_count()) return {};
  return nodes_of_groups(topology);
}

std::shared_ptr<const SwitchGroups> find_switch_groups(const Topology& topology) {
  return switch_group_sizes(topology).empty() ? nullptr : std::make_shared<const SwitchGroups>(topology);
}

std::string switch_groups_text(const Topology& topology) {
  if (topology.switch_count() == 0) return "does not go by switches: none are known";
  if (const int rank = first_unknown(topology); rank >= 0)
    return fmt::format("does not go by switches: that of node {} is not known", stored_name(topology.location(rank).host));
  if (topology.switch_count() == 1) return "does not go by switches: all nodes share one";
  if (topology.node_count() == topology.switch_count()) return "does not go by switches: there is one node on each";
  const std::vector<int> nodes = nodes_of_groups(topology);
  const auto [smallest, largest] = std::minmax_element(nodes.begin(), nodes.end());
  return fmt::format("goes by {} switches of {} to {} nodes", nodes.size(), *smallest, *largest);
}

std::int64_t share_by_counts(std::int64_t k, std::span<const std::uint64_t> counts, int part, std::int64_t iteration) {
  const auto parts = static_cast<std::int64_t>(counts.size());
  const auto before = [&](std::int64_t end) {
    std::uint64_t sum = 0;
    for (std::int64_t p = 0; p < end; ++p) sum += counts[static_cast<std::size_t>(p)];
    return sum;
  };
  if (before(parts) == 0) return 0;
  // Works as ShardMap::part_of, with entries instead of elements: the shift moves a multiple of the total onto the end of another
  // part each iteration. Sums of 2^32 and more are taken coarsely, so that nothing overflows.
  const int coarse = std::max(0, static_cast<int>(std::bit_width(before(parts))) - 32);
  const std::uint64_t total = before(parts) >> coarse;
  const auto scaled = [&](std::int64_t end) { return static_cast<std::uint64_t>(k) * (before(end) >> coarse); };
  const std::uint64_t shift = total - scaled(parts - iteration % parts) % total;
  const auto until = [&](std::int64_t end) { return (scaled(end) + shift) / total; };
  return static_cast<std::int64_t>(until(part + 1) - until(part));
}

std::int64_t k_across_groups(std::int64_t k, std::int64_t largest, int groups) {
  if (groups == 1 || largest <= k) return k;
  return std::min(k, std::max<std::int64_t>(1, (3 * k - largest) * groups / (2 * (groups - 1))));
}

}  // namespace weir
