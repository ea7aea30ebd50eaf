#include <array>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_pipeline.hpp"
#include "collectives/node_shards.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// The 2D-torus allreduce of CommLib section 5.3: reduce-scatter in the node, allreduce of each shard around a ring across nodes,
/// allgather in the node. Across nodes each rank sends 2 n / S (m - 1) / m elements, for m nodes and S shards.
template <class T>
class DenseTorus2d final : public DenseAllreduce<T> {
 public:
  explicit DenseTorus2d(const ExchangeSpec& spec)
      : map_(*spec.topology, spec.count), in_node_(map_, spec, true), pipeline_(map_, spec) {
    if (map_.mine() < 0) return;
    ExchangeSpec across = spec;
    across.count = map_.size(map_.mine());
    across.ranks = static_cast<int>(map_.rail().size());
    across_ = dense_ring_row.make_dense<T>(across);
  }

  task<void> run(Channel channel, T* data) override {
    const Channel node = channel.group(map_.node());
    StageScope stage = channel.stage(Stage::in_node_reduce);
    if (pipeline_ && node.size() == channel.size()) {
      co_await pipeline_.allreduce(node, data);
      co_return;
    }
    T* const shard = map_.mine() < 0 ? nullptr : data + map_.begin(map_.mine());
    if (pipeline_) {
      co_await pipeline_.reduce_scatter(node, data);
    } else {
      in_node_.publish(node.rank(), data, nullptr);
      co_await allreduce_control(node, words_.data(), 1, 0, words_.data() + 1);
      co_await in_node_.reduce(node, shard);
    }
    stage.next(Stage::allreduce);
    if (across_) co_await across_->run(channel.group(map_.rail()), shard);
    stage.next(Stage::in_node_allgather);
    if (pipeline_)
      co_await pipeline_.allgather(node, data);
    else
      co_await in_node_.allgather(node, data);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return in_node_.memory_bytes() + (across_ ? across_->memory_bytes() : 0);
  }

 private:
  ShardMap map_;
  NodeReduceScatter<T> in_node_;
  NodePipeline<T> pipeline_;
  std::unique_ptr<DenseAllreduce<T>> across_;
  std::array<std::uint64_t, 2> words_{};
};

/// Returns the cost of the 2D torus: n / S to its owner within the node, S rings across nodes at once, and back. S is the number of
/// ranks of the smallest node.
Cost cost_dense_torus2d(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const double shard = setting.bytes / setting.shards;
  Cost cost;
  book_flat(cost, setting, agreement(setting));
  book_in_node(cost, node_reduce_scatter(setting));
  book_across(cost, ring_allreduce(setting, setting.rings, shard));
  book_in_node(cost, node_dense_allgather(setting));
  return cost;
}

}  // namespace

const AllreduceRow dense_torus2d_row{
    .name = "dense_torus2d",
    .description = "2D torus: reduce-scatter in the node, ring across nodes, allgather in the node",
    .cost = cost_dense_torus2d,
    .sums_in_nodes = true,
    .cuda_memory = true,
    .dense_factories = dense_in_host_memory<DenseTorus2d>};

}  // namespace weir
