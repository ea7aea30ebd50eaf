#include "collectives/node_shards.hpp"

namespace weir {

ShardMap::ShardMap(const Topology& topology, std::int64_t count)
    : count_(count),
      shards_(topology.smallest_node()),
      mine_(topology.local_rank(topology.rank())),
      node_(topology.node_peers()),
      rail_(topology.local_rank_peers()) {
  if (mine_ >= shards_) mine_ = -1;
}

std::int64_t ShardMap::part_of(std::int64_t k, int shard, std::int64_t iteration) const {
  if (count_ == 0) return 0;
  // Counts are below 2^32, so nothing here overflows. The shift moves the ends of shards onto each other: with k = 1, iteration i
  // serves shard S - 1 - i, whatever the remainder of count / S.
  const auto n = static_cast<std::uint64_t>(count_), wanted = static_cast<std::uint64_t>(k);
  const auto shift = static_cast<std::uint64_t>(count_ - begin(shards_ - static_cast<int>(iteration % shards_)));
  const auto until = [&](std::int64_t end) { return (wanted * static_cast<std::uint64_t>(end) + shift) / n; };
  return static_cast<std::int64_t>(until(begin(shard + 1)) - until(begin(shard)));
}

}  // namespace weir
