// sharding.hpp: the in-node part of a plan whose algorithm shards (CommLib Algorithm 2, steps 1 and 4).
#pragma once

#include "collectives/allreduce.hpp"
#include "collectives/node_shards.hpp"
#include "contribution/threshold.hpp"

namespace weir::detail {

/// Returns the exchange among the owners of `shard`. Shard 0 is the largest.
[[nodiscard]] inline ExchangeSpec spec_of_shard(const ExchangeSpec& whole, const ShardMap& map, int shard) {
  ExchangeSpec spec = whole;
  spec.whole = std::make_shared<const ExchangeSpec>(whole);
  spec.count = map.size(shard);
  spec.largest_k = std::min(spec.count, whole.largest_k / map.shards() + 2);
  spec.largest_local = most_selected(spec.at_most_k, spec.count, spec.largest_k);
  spec.ranks = whole.topology->node_count();
  spec.summed = whole.topology->largest_node();
  spec.divisor = 1;
  return spec;
}

/// Returns the exchange among the owners of this rank's shard. It has no elements if this rank owns no shard.
[[nodiscard]] inline ExchangeSpec spec_of_own_shard(const ExchangeSpec& whole) {
  const ShardMap map(*whole.topology, whole.count);
  if (map.mine() >= 0) return spec_of_shard(whole, map, map.mine());
  ExchangeSpec nothing = whole;
  nothing.count = nothing.largest_k = nothing.largest_local = 0;
  return nothing;
}

template <class Arrays>
class Sharding {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  Sharding(const ExchangeSpec& whole, const AllreduceRow& row, NcclGroups* nccl)
      : map(*whole.topology, whole.count),
        node_sum(map, whole, nccl),
        allgather_(map, row.largest_update(spec_of_shard(whole, map, 0)),
                   map.shards() * row.largest_update(spec_of_shard(whole, map, 0)), whole) {}

  /// Returns the part of k that belongs to this rank's shard.
  [[nodiscard]] std::int64_t share(std::int64_t k, std::int64_t iteration) const {
    return map.mine() < 0 ? 0 : map.part_of(k, map.mine(), iteration);
  }
  [[nodiscard]] std::int64_t begin() const { return map.mine() < 0 ? 0 : map.begin(map.mine()); }
  [[nodiscard]] std::int64_t size() const { return map.mine() < 0 ? 0 : map.size(map.mine()); }
  task<SparseOutcome<T>> allgather(Channel channel, const SparseOutcome<T>& mine) {
    const StageScope stage = channel.stage(Stage::in_node_allgather);
    co_return co_await allgather_.run(channel.group(map.node()), mine);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return node_sum.memory_bytes() + allgather_.memory_bytes(); }

  const ShardMap map;
  typename Arrays::NodeSum node_sum;

 private:
  NodeAllgather<T, typename Arrays::Space> allgather_;
};

}  // namespace weir::detail
