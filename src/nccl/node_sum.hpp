// node_sum.hpp: does what collectives/node_sum.hpp does, in CUDA memory by NCCL.
#pragma once

#include <vector>

#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"
#include "communicator/input_error.hpp"
#include "cuda/runtime.hpp"
#include "nccl/turn.hpp"

namespace weir::detail {

template <class G>
class NcclNodeSum {
 public:
  /// `nccl` has the groups of the nodes. run() puts the result onto whole.stream and waits until it is done.
  NcclNodeSum(const ShardMap& map, const ExchangeSpec& whole, NcclGroups* nccl)
      : type_(whole.type),
        stream_(whole.stream),
        nccl_(*nccl),
        bounds_(map.bounds()),
        sum_(map.mine() >= 0 && map.node().size() > 1 ? map.size(map.mine()) : 0) {}

  task<const G*> run(Channel channel, const G* gradient, bool /*caller_waits*/, ErrorReport input_error) {
    const StageScope stage = channel.stage(Stage::in_node_reduce);
    if (!input_error && nccl_.aborted()) input_error = ErrorReport(InputError::nccl_aborted, channel.rank());
    words_[0] = input_error.word();
    {
      const StageScope agreement = channel.stage(Stage::agree);
      co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
    }
    if (words_[0] != 0) co_return nullptr;
    const StageScope by_nccl = channel.stage(Stage::nccl);
    NcclTurn turn(nccl_, summed_, stream_);
    co_await turn.begin(channel);
    auto* const node = nccl_.of(NcclGroup::node);
    if (node != nullptr) node->reduce_scatter(gradient, sum_.data(), bounds_, type_, 1, stream_);
    co_await turn.issued(channel, node);
    co_await turn.end(channel);
    co_return node == nullptr ? gradient : sum_.data();
  }
  [[nodiscard]] ErrorReport input_error() const { return ErrorReport::of_word(words_[0]); }
  [[nodiscard]] std::int64_t memory_bytes() const { return sum_.bytes(); }

 private:
  DataType type_;
  void* stream_;
  NcclGroups& nccl_;
  std::vector<std::int64_t> bounds_;
  cuda::DeviceArray<G> sum_;
  cuda::Event summed_;
  std::uint64_t words_[2] = {};
};

template <class G>
class NcclNodeShards {
 public:
  NcclNodeShards(const ShardMap& map, const ExchangeSpec& whole, NcclGroups* nccl)
      : map_(map), type_(whole.type), stream_(whole.stream), nccl_(*nccl), bounds_(map.bounds()) {}

  task<void> reduce_scatter(Channel channel, G* data) {
    const StageScope stage = channel.stage(Stage::in_node_reduce);
    co_await run(channel, [&](auto* node) {
      node->reduce_scatter(data, map_.mine() >= 0 ? data + map_.begin(map_.mine()) : nullptr, bounds_, type_, 1, stream_);
    });
  }
  task<void> allgather(Channel channel, G* data) {
    const StageScope stage = channel.stage(Stage::in_node_allgather);
    co_await run(channel, [&](auto* node) { node->allgather(data, bounds_, type_, stream_); });
  }
  [[nodiscard]] bool usable() const { return !nccl_.aborted(); }
  [[nodiscard]] static std::int64_t memory_bytes() { return 0; }

 private:
  template <class Operation>
  task<void> run(Channel channel, Operation operation) {
    const StageScope stage = channel.stage(Stage::nccl);
    NcclTurn turn(nccl_, done_, stream_);
    co_await turn.begin(channel);
    auto* const node = nccl_.of(NcclGroup::node);
    if (node != nullptr) operation(node);
    co_await turn.issued(channel, node);
    co_await turn.end(channel);
  }

  ShardMap map_;
  DataType type_;
  void* stream_;
  NcclGroups& nccl_;
  std::vector<std::int64_t> bounds_;
  cuda::Event done_;
};

}  // namespace weir::detail
