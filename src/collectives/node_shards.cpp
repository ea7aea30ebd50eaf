#include "collectives/node_shards.hpp"

namespace weir {

ShardMap::ShardMap(const Topology& topology, std::int64_t count)
    : count_(count),
      shards_(topology.smallest_node()),
      mine_(topology.local_rank(topology.rank())),
      node_(topology.node_peers()),
      owners_(topology.local_rank_peers()) {
  if (mine_ >= shards_) mine_ = -1;
}

std::int64_t ShardMap::part_of(std::int64_t k, int shard, std::int64_t iteration) const {
  if (count_ == 0) return 0;
  // Counts are below 2^32, so nothing here overflows.
  const auto n = static_cast<std::uint64_t>(count_), wanted = static_cast<std::uint64_t>(k);
  const std::uint64_t shift = n * static_cast<std::uint64_t>(iteration % shards_) / static_cast<std::uint64_t>(shards_);
  const auto until = [&](std::int64_t end) { return (wanted * static_cast<std::uint64_t>(end) + shift) / n; };
  return static_cast<std::int64_t>(until(begin(shard + 1)) - until(begin(shard)));
}

}  // namespace weir
