// device_sharding.hpp: the in-node half of a plan in CUDA memory whose algorithm shards: what sharding.hpp is for host memory, with
// the dense sums by NCCL.
#pragma once

#include <vector>

#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/device_space.hpp"
#include "collectives/node_shards.hpp"
#include "communicator/input_error.hpp"
#include "cuda/runtime.hpp"
#include "nccl/turn.hpp"
#include "plan/sharding.hpp"

namespace weir::detail {

/// Gradients and their sums in the node are of G, what goes across of T.
template <class G, class T>
class DeviceSharding {
 public:
  /// `nccl` has the groups of the nodes.
  DeviceSharding(const AllreduceProblem& whole, const AllreduceRow& row, NcclGroups& nccl)
      : map(*whole.topology, whole.count),
        type_(whole.config.type),
        nccl_(nccl),
        capacity_(row.largest_update(Sharding<T>::problem_of_shard(whole, map, 0))),
        allgather_(map, capacity_, whole),
        sum_(owner() && map.node().size() > 1 ? map.size(map.mine()) : 0) {
    for (int shard = 0; shard <= map.shards(); ++shard) bounds_.push_back(map.begin(shard));
  }

  /// This rank has a shard; else it only gives and receives.
  [[nodiscard]] bool owner() const { return map.mine() >= 0; }
  /// What the owners of my shard have among them; for ranks without one an empty one.
  [[nodiscard]] AllreduceProblem problem(const AllreduceProblem& whole) const {
    if (owner()) return Sharding<T>::problem_of_shard(whole, map, map.mine());
    AllreduceProblem nothing = whole;
    nothing.count = nothing.largest_k = nothing.largest_local = 0;
    return nothing;
  }
  /// My shard's sum over the node in device memory, or nothing where input_error() says that a rank has one. Put onto `stream`, and
  /// done. `gradient` is only read; `event` is nobody else's meanwhile.
  task<const G*> reduce_scatter(Channel channel, const G* gradient, std::uint64_t input_error, void* stream, cuda::Event& event) {
    channel.step("0. faults");
    words_[0] = input_error != 0 || !nccl_.aborted() ? input_error : input_error_word(InputError::nccl_aborted, channel.rank());
    co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
    if (words_[0] != 0) co_return nullptr;
    NcclTurn turn(nccl_, event, stream);
    co_await turn.begin(channel);
    auto* const node = nccl_.of(NcclGroup::node);
    channel.step("0. reduce-scatter of NCCL in the node");
    if (node != nullptr) node->reduce_scatter(gradient, sum_.data(), bounds_, type_, 1, stream);
    co_await turn.issued(channel, node);
    co_await turn.end(channel);
    co_return node == nullptr ? gradient : sum_.data();
  }
  [[nodiscard]] std::uint64_t input_error() const { return words_[0]; }

  /// My shard's part of k.
  [[nodiscard]] std::int64_t share(std::int64_t k, std::int64_t iteration) const {
    return owner() ? map.part_of(k, map.mine(), iteration) : 0;
  }
  [[nodiscard]] std::int64_t begin() const { return owner() ? map.begin(map.mine()) : 0; }

  task<SparseOutcome<T>> allgather(Channel channel, const SparseOutcome<T>& mine) {
    channel.step("6. allgather in the node");
    return allgather_.run(channel.group(map.node()), mine);
  }

  [[nodiscard]] std::int64_t memory_bytes() const { return allgather_.memory_bytes() + sum_.bytes(); }

  const ShardMap map;

 private:
  DataType type_;
  NcclGroups& nccl_;
  std::int64_t capacity_;  // entries of a shard's update
  std::vector<std::int64_t> bounds_;
  NodeAllgather<T, DeviceSpace<T>> allgather_;
  cuda::DeviceArray<G> sum_;
  std::uint64_t words_[2] = {};
};

}  // namespace weir::detail
