// node_sum.hpp: the first step of algorithms that shard within nodes (CommLib Algorithm 2, step 1), in host memory. For algorithms
// that exchange in place, also the last step.
#pragma once

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"

namespace weir {

namespace detail {
class NcclGroups;
}

template <class T>
class NodeSum {
 public:
  NodeSum(const ShardMap& map, const ExchangeSpec& whole, detail::NcclGroups* /*for CUDA memory*/)
      : map_(map), in_node_(map, whole, false), sum_(map.mine() >= 0 && map.node().size() > 1 ? map.size(map.mine()) : 0) {}

  /// Returns my shard's sum over the node, or nullptr if a rank of the node has an error; see input_error(). `gradient` is only
  /// read. Unless `caller_waits`, it is read only before the first message.
  task<const T*> run(Channel channel, const T* gradient, bool caller_waits, ErrorReport input_error) {
    const Channel node = channel.group(map_.node());
    const StageScope stage = channel.stage(Stage::in_node_reduce);
    words_[0] = input_error.word();
    if (!input_error && node.size() > 1) in_node_.publish(node.rank(), gradient, caller_waits ? nullptr : sum_.data());
    {
      const StageScope agreement = channel.stage(Stage::agree);
      co_await allreduce_control(node, words_, 1, 1, words_ + 1);
    }
    if (words_[0] != 0) co_return nullptr;
    if (node.size() == 1) co_return gradient;
    co_await in_node_.reduce(node, sum_.data());
    co_return sum_.data();
  }
  [[nodiscard]] ErrorReport input_error() const { return ErrorReport::of_word(words_[0]); }
  [[nodiscard]] std::int64_t memory_bytes() const { return in_node_.memory_bytes() + sum_.bytes(); }

 private:
  ShardMap map_;
  NodeReduceScatter<T> in_node_;
  Buffer<T> sum_;
  std::uint64_t words_[2] = {};
};

/// The node's sum for algorithms that exchange in place: each owner's shard of its gradient becomes the node's sum, and at the end
/// all ranks have all shards. All ranks must have agreed on the run.
template <class T>
class NodeShards {
 public:
  NodeShards(const ShardMap& map, const ExchangeSpec& whole, detail::NcclGroups* /*for CUDA memory*/)
      : map_(map), in_node_(map, whole, true) {}

  task<void> reduce_scatter(Channel channel, T* data) {
    const Channel node = channel.group(map_.node());
    const StageScope stage = channel.stage(Stage::in_node_reduce);
    in_node_.publish(node.rank(), data, nullptr);
    co_await allreduce_control(node, words_, 1, 0, words_ + 1);
    co_await in_node_.reduce(node, map_.mine() >= 0 ? data + map_.begin(map_.mine()) : nullptr);
  }
  task<void> allgather(Channel channel, T* data) {
    const StageScope stage = channel.stage(Stage::in_node_allgather);
    co_await in_node_.allgather(channel.group(map_.node()), data);
  }
  [[nodiscard]] static bool usable() { return true; }
  [[nodiscard]] std::int64_t memory_bytes() const { return in_node_.memory_bytes(); }

 private:
  ShardMap map_;
  NodeReduceScatter<T> in_node_;
  std::uint64_t words_[2] = {};
};

}  // namespace weir
