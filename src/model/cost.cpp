#include "model/cost.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/switch_groups.hpp"

namespace weir {
Problem make_problem(const Topology& topology, std::int64_t count, std::int64_t k, DataType type) {
  Problem problem;
  problem.count = count;
  problem.k = k;
  problem.value_bytes = type == DataType::float64 ? 8 : 4;
  problem.ranks = topology.size();
  problem.nodes = topology.node_count();
  const std::span<const int> leaders = topology.leaders();
  std::vector<int> sizes(leaders.size());
  Level inside = Level::self, across = Level::node;
  for (int rank = 0; rank < topology.size(); ++rank) {
    const auto node = static_cast<std::size_t>(topology.node_of(rank));
    ++sizes[node];
    inside = std::max(inside, topology.level(rank, leaders[node]));
    across = std::max(across, topology.level(rank, 0));
  }
  // With one rank per node, or one node, this level has no messages: any level will do.
  problem.inside = inside == Level::self ? Level::node : inside;
  problem.across = problem.nodes == 1 ? Level::system : across;
  const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
  problem.smallest_node = *smallest;
  problem.largest_node = *largest;
  if (const std::vector<int> groups = switch_group_sizes(topology); !groups.empty()) {
    const auto [few, many] = std::minmax_element(groups.begin(), groups.end());
    problem.switches = static_cast<int>(groups.size());
    problem.smallest_switch = *few;
    problem.largest_switch = *many;
  }
  return problem;
}

}  // namespace weir
