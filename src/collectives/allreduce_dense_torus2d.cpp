#include <array>
#include <cmath>

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

  task<ErrorReport> agree_and_run(Channel channel, T* data, ErrorReport mine) override {
    if (!in_one_node(channel)) co_return co_await DenseAllreduce<T>::agree_and_run(channel, data, mine);
    const StageScope stage = channel.stage(Stage::in_node_reduce);
    co_return co_await pipeline_.allreduce(channel.group(map_.node()), data, mine);
  }

  task<void> run(Channel channel, T* data) override {
    const Channel node = channel.group(map_.node());
    StageScope stage = channel.stage(Stage::in_node_reduce);
    if (in_one_node(channel)) {
      static_cast<void>(co_await pipeline_.allreduce(node, data, ErrorReport()));
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
    return (pipeline_ ? pipeline_.memory_bytes() : in_node_.memory_bytes()) + (across_ ? across_->memory_bytes() : 0);
  }

 private:
  /// Returns whether all ranks share memory.
  [[nodiscard]] bool in_one_node(Channel channel) const {
    return pipeline_ && static_cast<int>(map_.node().size()) == channel.size();
  }

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
  cost.select = check_seconds(setting);
  if (!shares_memory(setting)) {
    book_flat(cost, setting, agreement(setting));
    book_in_node(cost, node_reduce_scatter(setting));
    book_across(cost, ring_allreduce(setting, setting.rings, shard));
    book_in_node(cost, node_dense_allgather(setting));
    return cost;
  }
  const auto block = static_cast<double>(pipeline_block(setting.shards, problem.value_bytes));
  const double steps = std::ceil(setting.n / setting.shards / block);
  // Others' shards are shown, and my own is summed over the ranks. Then my own is shown, and others' are copied.
  const double others = setting.bytes - (problem.largest_node > setting.shards ? 0 : shard);
  const double shown = others + (problem.largest_node - 1) * shard;  // and read by owners
  if (problem.nodes == 1) {
    book_in_node(cost, node_pipeline(setting, steps + 1, 2 * setting.bytes, shown + shard + others));
    return cost;
  }
  book_flat(cost, setting, agreement(setting));
  book_in_node(cost, node_pipeline(setting, steps, setting.bytes + shard, shown));
  book_across(cost, ring_allreduce(setting, setting.rings, shard));
  book_in_node(cost, node_pipeline(setting, steps, others, shard + others));
  return cost;
}

}  // namespace

const AllreduceRow dense_torus2d_row{
    .name = "dense_torus2d",
    .description = "2D torus: reduce-scatter in the node, ring across nodes, allgather in the node",
    .cost = cost_dense_torus2d,
    .in_nodes = NodeSums::by_blocks,
    .cuda_memory = true,
    .dense_factories = dense_in_host_memory<DenseTorus2d>};

}  // namespace weir
