// sharding.hpp: the in-node half of a plan whose algorithm shards (CommLib Algorithm 2, steps 1 and 4).
#pragma once

#include "collectives/allreduce.hpp"
#include "collectives/node_shards.hpp"
#include "plan/threshold_estimators.hpp"

namespace weir::detail {

/// The problem that the owners of `shard` have among them. Shard 0 has the largest.
[[nodiscard]] inline AllreduceProblem problem_of_shard(const AllreduceProblem& whole, const ShardMap& map, int shard) {
  AllreduceProblem problem = whole;
  problem.count = map.size(shard);
  problem.largest_k = std::min(problem.count, whole.largest_k / map.shards() + 2);
  problem.largest_local = most_selected(problem.config.threshold, problem.count, problem.largest_k);
  problem.ranks = whole.topology->node_count();
  problem.summed = whole.topology->largest_node();
  problem.divisor = 1;
  return problem;
}

template <class Memory>
class Sharding {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  Sharding(const AllreduceProblem& whole, const AllreduceRow& row, NcclGroups* nccl)
      : map(*whole.topology, whole.count),
        node_sum(map, whole, nccl),
        allgather_(map, row.largest_update(problem_of_shard(whole, map, 0)),
                   map.shards() * row.largest_update(problem_of_shard(whole, map, 0)), whole) {}

  /// My shard's part of k.
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
  typename Memory::NodeSum node_sum;

 private:
  NodeAllgather<T, typename Memory::Space> allgather_;
};

}  // namespace weir::detail
