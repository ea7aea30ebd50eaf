// sharding.hpp: the in-node half of a plan whose algorithm shards (CommLib Algorithm 2, steps 1 and 4).
#pragma once

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"
#include "plan/local_selector.hpp"

namespace weir::detail {

template <class T>
class Sharding {
 public:
  Sharding(const AllreduceProblem& whole, const AllreduceRow& row)
      : map(*whole.topology, whole.count),
        in_node_(map, whole, false),
        allgather_(map, row.largest_update(problem_of_shard(whole, map, 0)), whole),
        sum_(map.mine() >= 0 && map.node().size() > 1 ? map.size(map.mine()) : 0) {}

  /// The problem that the owners of `shard` have among them. Shard 0 has the largest.
  static AllreduceProblem problem_of_shard(const AllreduceProblem& whole, const ShardMap& map, int shard) {
    AllreduceProblem problem = whole;
    problem.count = map.size(shard);
    problem.largest_k = std::min(problem.count, whole.largest_k / map.shards() + 2);
    problem.largest_local = LocalSelector<T>::most_selected(problem.config.threshold, problem.count, problem.largest_k);
    problem.ranks = whole.topology->node_count();
    problem.divisor = 1;
    return problem;
  }

  /// My shard's sum over the node, or nothing where input_error() says that a rank of the node has one. `gradient` is only read,
  /// and, unless `caller_waits` and so keeps it, only before the first message.
  task<const T*> reduce_scatter(Channel channel, const T* gradient, bool caller_waits, std::uint64_t input_error) {
    const Channel node = channel.group(map.node());
    channel.step("0. faults in the node");
    words_[0] = input_error;
    if (input_error == 0 && node.size() > 1) in_node_.publish(node.rank(), gradient, caller_waits ? nullptr : sum_.data());
    co_await allreduce_control(node, words_, 1, 1, words_ + 1);
    if (words_[0] != 0) co_return nullptr;
    if (node.size() == 1) co_return gradient;
    channel.step("0. reduce-scatter in the node");
    co_await in_node_.reduce(node, sum_.data());
    co_return sum_.data();
  }
  [[nodiscard]] std::uint64_t input_error() const { return words_[0]; }

  /// My shard's part of k.
  [[nodiscard]] std::int64_t share(std::int64_t k, std::int64_t iteration) const {
    return map.mine() < 0 ? 0 : map.part_of(k, map.mine(), iteration);
  }
  [[nodiscard]] std::int64_t begin() const { return map.mine() < 0 ? 0 : map.begin(map.mine()); }

  task<SparseOutcome<T>> allgather(Channel channel, const SparseOutcome<T>& mine) {
    channel.step("6. allgather in the node");
    return allgather_.run(channel.group(map.node()), mine);
  }

  [[nodiscard]] std::int64_t memory_bytes() const { return in_node_.memory_bytes() + allgather_.memory_bytes() + sum_.bytes(); }

  const ShardMap map;

 private:
  NodeReduceScatter<T> in_node_;
  NodeAllgather<T> allgather_;
  Buffer<T> sum_;
  std::uint64_t words_[2] = {};
};

}  // namespace weir::detail
