#include "nccl/allreduce_dense.hpp"

#include <array>
#include <bit>
#include <type_traits>
#include <vector>

#include "collectives/node_shards.hpp"
#include "cuda/runtime.hpp"
#include "kernels/cuda_kernels.hpp"
#include "nccl/turn.hpp"

namespace weir::detail {
namespace {

template <class G>
class DenseNccl : public DenseAllreduce<G> {
 public:
  DenseNccl(const ExchangeSpec& spec, NcclGroups& groups)
      : nccl(groups), type(spec.type), stream(spec.stream), device_(spec.device) {
    if (spec.divisor == 1) return;
    if (sizeof(G) == 2 || std::has_single_bit(static_cast<unsigned>(spec.ranks)))
      factor = 1.0 / spec.divisor;
    else
      late_factor_ = T{1} / static_cast<T>(spec.divisor);
  }
  [[nodiscard]] std::int64_t memory_bytes() const override { return 0; }
  [[nodiscard]] bool usable() const override { return !nccl.aborted(); }
  task<void> run(Channel channel, G* data) override {
    const StageScope stage = channel.stage(Stage::nccl);
    NcclTurn turn(nccl, done_, stream);
    co_await turn.begin(channel);
    co_await sum(channel, turn, data);
    co_await turn.end(channel);
  }

 protected:
  virtual task<void> sum(Channel channel, NcclTurn& turn, G* data) = 0;
  void divide(G* sums, std::int64_t count) {
    if constexpr (std::is_same_v<G, T>) {
      const kernels::cuda::Queue queue{stream, nullptr, device_};
      if (late_factor_ != 1 && count > 0) kernels::cuda::scale(queue, sums, count, late_factor_);
    }
  }

  NcclGroups& nccl;
  DataType type;
  void* stream;
  double factor = 1;  ///< that multiplies every contribution

 private:
  using T = std::conditional_t<std::is_same_v<G, double>, double, float>;

  int device_;
  T late_factor_ = 1;  // that multiplies the sum
  cuda::Event done_;
};

template <class G>
class Flat final : public DenseNccl<G> {
 public:
  Flat(const ExchangeSpec& spec, NcclGroups& groups) : DenseNccl<G>(spec, groups), count_(spec.count) {}

 private:
  task<void> sum(Channel channel, NcclTurn& turn, G* data) override {
    const StageScope stage = channel.stage(Stage::allreduce);
    if (auto* const link = this->nccl.of(NcclGroup::all); link != nullptr) {
      link->allreduce(data, count_, this->type, this->factor, this->stream);
      co_await turn.issued(channel, link);
    }
    this->divide(data, count_);
  }

  std::int64_t count_;
};

/// The 2D torus of CommLib section 5.3.
template <class G>
class Torus final : public DenseNccl<G> {
 public:
  Torus(const ExchangeSpec& spec, NcclGroups& groups)
      : DenseNccl<G>(spec, groups),
        map_(*spec.topology, spec.count),
        bounds_(map_.bounds()),
        factor_in_nodes_(spec.topology->smallest_node() > 1) {}

 private:
  task<void> sum(Channel channel, NcclTurn& turn, G* data) override {
    auto* const node = this->nccl.of(NcclGroup::node);
    auto* const rail = this->nccl.of(NcclGroup::rail);
    const bool owner = map_.mine() >= 0;
    G* const shard = owner ? data + map_.begin(map_.mine()) : nullptr;
    const std::int64_t size = owner ? map_.size(map_.mine()) : 0;

    StageScope stage = channel.stage(Stage::in_node_reduce);
    if (node != nullptr) {
      node->reduce_scatter(data, shard, bounds_, this->type, factor_in_nodes_ ? this->factor : 1, this->stream);
      co_await turn.issued(channel, node);
    }
    stage.next(Stage::allreduce);
    if (rail != nullptr) {
      rail->allreduce(shard, size, this->type, factor_in_nodes_ ? 1 : this->factor, this->stream);
      co_await turn.issued(channel, rail);
    }
    this->divide(shard, size);
    stage.next(Stage::in_node_allgather);
    if (node != nullptr) {
      node->allgather(data, bounds_, this->type, this->stream);
      co_await turn.issued(channel, node);
    }
  }

  ShardMap map_;
  std::vector<std::int64_t> bounds_;
  bool factor_in_nodes_;  // true if every contribution is summed inside a node
};

}  // namespace

std::span<const NcclGroup> groups_of_dense(std::string_view name) {
  static constexpr std::array flat = {NcclGroup::all};
  static constexpr std::array torus = {NcclGroup::node, NcclGroup::rail};
  return name == "dense_torus2d" ? std::span<const NcclGroup>(torus) : std::span<const NcclGroup>(flat);
}

template <class G>
std::unique_ptr<DenseAllreduce<G>> make_dense_nccl(std::string_view name, const ExchangeSpec& spec, NcclGroups& nccl) {
  if (name == "dense_torus2d") return std::make_unique<Torus<G>>(spec, nccl);
  return std::make_unique<Flat<G>>(spec, nccl);
}
template std::unique_ptr<DenseAllreduce<float>> make_dense_nccl(std::string_view, const ExchangeSpec&, NcclGroups&);
template std::unique_ptr<DenseAllreduce<double>> make_dense_nccl(std::string_view, const ExchangeSpec&, NcclGroups&);
template std::unique_ptr<DenseAllreduce<float16>> make_dense_nccl(std::string_view, const ExchangeSpec&, NcclGroups&);
template std::unique_ptr<DenseAllreduce<bfloat16>> make_dense_nccl(std::string_view, const ExchangeSpec&, NcclGroups&);

}  // namespace weir::detail
