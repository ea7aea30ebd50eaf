#include <array>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"

namespace weir {
namespace {

/// The 2D-torus allreduce of CommLib section 5.3: reduce-scatter in the node, allreduce of each shard around a ring across nodes,
/// allgather in the node. Across nodes 2 n / S (m - 1) / m elements are sent per rank, for m nodes and S shards.
template <class T>
class DenseTorus2d final : public DenseAllreduce<T> {
 public:
  explicit DenseTorus2d(const ExchangeSpec& spec) : map_(*spec.topology, spec.count), in_node_(map_, spec, true) {
    if (map_.mine() < 0) return;
    ExchangeSpec across = spec;
    across.count = map_.size(map_.mine());
    across.ranks = static_cast<int>(map_.rail().size());
    across_ = make_dense_ring<T>(across);
  }

  task<void> run(Channel channel, T* data) override {
    const Channel node = channel.group(map_.node());
    StageScope stage = channel.stage(Stage::in_node_reduce);
    T* const shard = map_.mine() < 0 ? nullptr : data + map_.begin(map_.mine());
    in_node_.publish(node.rank(), data, nullptr);
    co_await allreduce_control(node, words_.data(), 1, 0, words_.data() + 1);
    co_await in_node_.reduce(node, shard);
    stage.next(Stage::allreduce);
    if (across_) co_await across_->run(channel.group(map_.rail()), shard);
    stage.next(Stage::in_node_allgather);
    co_await in_node_.allgather(node, data);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return in_node_.memory_bytes() + (across_ ? across_->memory_bytes() : 0);
  }

 private:
  ShardMap map_;
  NodeReduceScatter<T> in_node_;
  std::unique_ptr<DenseAllreduce<T>> across_;
  std::array<std::uint64_t, 2> words_{};
};

}  // namespace

template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_torus2d(const ExchangeSpec& spec) {
  return std::make_unique<DenseTorus2d<T>>(spec);
}
template std::unique_ptr<DenseAllreduce<float>> make_dense_torus2d(const ExchangeSpec&);
template std::unique_ptr<DenseAllreduce<double>> make_dense_torus2d(const ExchangeSpec&);

}  // namespace weir
