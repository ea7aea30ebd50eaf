// compressed.hpp: a run whose gradient travels compressed, as bytes or as dense values or factors: compensate, exchange, deliver.
// In place. One control flow for both memories: what only host memory has is staged there.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "collectives/compressed_exchange.hpp"
#include "collectives/node_shards.hpp"
#include "compress/compressor.hpp"
#include "compress/memory.hpp"
#include "plan/encoded.hpp"
#include "plan/plan.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {

/// Gradients are of G, what is kept and compressed is of float.
template <class Memory>
class Compressed {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  /// `compressor` is packed or linear. `in_nodes`: ranks of a node sum their gradients first, and each owns a shard. `memory`
  /// outlives it.
  Compressed(const ExchangeSpec& whole, std::int64_t seed, const AllreduceRow& algorithm, const compress::Compressor& compressor,
             const compress::MemoryRules& rules, NcclGroups* nccl, bool in_nodes, Memory& memory)
      : memory_(memory),
        seed_(static_cast<std::uint64_t>(seed)),
        rank_(static_cast<std::uint32_t>(whole.topology->rank())),
        count_(whole.count) {
    ExchangeSpec mine = whole;
    if (in_nodes) {
      map_.emplace(*whole.topology, whole.count);
      in_node_.emplace(*map_, whole, nccl);
      count_ = mine.count = owns() ? map_->size(map_->mine()) : 0;
      mine.ranks = static_cast<int>(map_->rail().size());
    }
    if (!owns() || whole.count == 0) return;
    gradient_memory_.emplace(rules, count_, memory);
    if (!in_place) wide_ = Array(count_);
    exchange_ = algorithm.packed()
                    ? Memory::make_packed(algorithm, mine, compressor)
                    : Memory::staged(compressor.row->exchange(compressor.parameters, linear_problem(whole, algorithm)), mine);
  }

  /// The elements of which this rank keeps a residual.
  [[nodiscard]] std::int64_t begin() const { return map_ && owns() ? map_->begin(map_->mine()) : 0; }
  [[nodiscard]] std::int64_t size() const { return count_; }
  /// False where an error keeps this rank from running it: the ranks agree on that beforehand.
  [[nodiscard]] bool usable() const { return !in_node_ || in_node_->usable(); }

  /// `data`, the gradient, becomes the update; `residual` is nullptr without error feedback. All ranks have agreed on the run.
  task<void> run(Channel channel, G* data, T* residual, std::int64_t iteration) {
    if (map_) co_await in_node_->reduce_scatter(channel, data);
    if (exchange_) {
      G* const part = data + begin();
      const T* const values = co_await compensate(channel, part, residual);
      const StageScope stage = channel.stage(Stage::exchange);
      if constexpr (in_place) {
        co_await exchange_->run(exchange_channel(channel), draw(iteration), values, residual, part);
      } else {
        co_await exchange_->run(exchange_channel(channel), draw(iteration), values, residual, wide_.data());
        memory_.narrow(wide_.data(), part, count_);
      }
    }
    if (map_) co_await in_node_->allgather(channel, data);
  }

  /// Without messages: what this rank contributes. Not of shards, and of packed ones only.
  std::int64_t encode(encoded::Writer& writer, const G* gradient, T* residual, std::int64_t iteration, std::byte* out) {
    const T* const values = gradient_memory_ ? run_here(compensated(gradient, residual)) : gradient;  // none: there are no elements
    return writer.write_packed(draw(iteration), values, out, residual);
  }
  /// Whether ranks of a node share what they exchange.
  [[nodiscard]] bool in_nodes() const { return map_.has_value(); }

  /// Takes over what `other` keeps of gradients, of the same elements.
  void take_memory(Compressed& other) {
    if (gradient_memory_ && other.gradient_memory_) gradient_memory_->take(*other.gradient_memory_);
  }
  void reset() {
    if (gradient_memory_) gradient_memory_->reset();
    if (exchange_) exchange_->reset();
  }
  void scale(double factor) {
    if (gradient_memory_) gradient_memory_->scale(factor);
  }
  void visit_state(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    if (gradient_memory_) gradient_memory_->visit_state(visitor, copy);
    if (!exchange_) return;
    const StateVisitor::Scope scope(visitor, "exchange");
    exchange_->visit_state(visitor);
  }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return wide_.bytes() + (gradient_memory_ ? gradient_memory_->memory_bytes() : 0) + (exchange_ ? exchange_->memory_bytes() : 0) +
           (in_node_ ? in_node_->memory_bytes() : 0);
  }

 private:
  using Array = typename Memory::template Array<T>;
  /// Updates take the place of gradients as they are.
  static constexpr bool in_place = std::is_same_v<G, T>;

  [[nodiscard]] Draw draw(std::int64_t iteration) const { return {seed_, static_cast<std::uint64_t>(iteration), rank_}; }
  [[nodiscard]] bool owns() const { return !map_ || map_->mine() >= 0; }

  [[nodiscard]] Channel exchange_channel(Channel whole) const { return map_ ? whole.group(map_->rail()) : whole; }

  static LinearProblem linear_problem(const ExchangeSpec& whole, const AllreduceRow& algorithm) {
    const auto make_dense = [whole, &algorithm](std::int64_t count, double divisor) {
      ExchangeSpec part = whole;
      part.count = count;
      part.divisor = divisor;
      part.shared = {};  // where a second sum would overwrite the first before all have read it
      return algorithm.make_dense<float>(part);
    };
    return {whole.count, whole.final_k, whole.ranks, whole.divisor, make_dense};
  }

  task<const T*> compensate(Channel channel, const G* gradient, T* residual) {
    const StageScope stage = channel.stage(Stage::select);
    co_return co_await compensated(gradient, residual);
  }
  /// What is to be compressed, in the residual if there is one.
  task<const T*> compensated(const G* gradient, T* residual) {
    if (gradient_memory_->idle()) co_return taken_up(gradient, residual);
    const T* const prepared = co_await gradient_memory_->prepare(gradient, residual);
    gradient_memory_->commit();
    if (residual == nullptr) co_return prepared;
    memory_.add(prepared, residual, count_);
    co_return residual;
  }
  const T* taken_up(const G* gradient, T* residual) {
    if (residual != nullptr) {
      memory_.add(gradient, residual, count_);
      return residual;
    }
    if constexpr (in_place) {
      return gradient;
    } else {
      memory_.waxpby(T{1}, gradient, T{0}, nullptr, wide_.data(), count_);
      return wide_.data();
    }
  }

  Memory& memory_;
  std::uint64_t seed_;
  std::uint32_t rank_;
  std::int64_t count_;
  std::optional<ShardMap> map_;
  std::optional<typename Memory::NodeShards> in_node_;
  std::optional<compress::GradientMemory<Memory>> gradient_memory_;
  std::unique_ptr<CompressedExchange> exchange_;
  Array wide_;  // where gradients are narrower: them, then the update
};

}  // namespace weir::detail
