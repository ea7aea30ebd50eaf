// packed_run.hpp: a run that compresses the gradient and exchanges it as bytes, dense values or factors, in place: compensate,
// exchange, deliver. Both memories share one control flow. Algorithms that exist only for host memory are staged.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "collectives/compressed_exchange.hpp"
#include "collectives/node_shards.hpp"
#include "compress/compressor.hpp"
#include "contribution/error_feedback.hpp"
#include "contribution/selection_setup.hpp"
#include "plan/dense_run.hpp"
#include "plan/encoded.hpp"
#include "plan/estimate.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {

/// Gradients are of type G. Kept and compressed values are float.
template <class Arrays>
class PackedRun {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `compressor` is packed or linear. `in_nodes`: the ranks of a node sum their gradients first, and each owns a shard. `arrays`
  /// and `estimate` must outlive the object.
  PackedRun(const AllreduceConfig& config, const ExchangeSpec& whole, const AllreduceRow& algorithm,
            const compress::Compressor& compressor, const FeedbackRules& rules, NcclGroups* nccl, bool in_nodes, Arrays& arrays,
            Estimate<Arrays>& estimate)
      : arrays_(arrays),
        estimate_(estimate),
        seed_(static_cast<std::uint64_t>(config.seed)),
        rank_(static_cast<std::uint32_t>(whole.topology->rank())),
        whole_count_(whole.count),
        count_(whole.count),
        soundness_(whole.count, config.non_finite == NonFinite::propagate,
                   SelectionSetup{.count = whole.count, .scales_up = compressor.scales_up()}.first_wild<T>(final_k(config)),
                   arrays) {
    ExchangeSpec mine = whole;
    if (in_nodes) {
      map_.emplace(*whole.topology, whole.count);
      in_node_.emplace(*map_, whole, nccl);
      count_ = mine.count = owns() ? map_->size(map_->mine()) : 0;
      mine.ranks = static_cast<int>(map_->rail().size());
    }
    if (config.error_feedback != Feedback::none) residual_ = Array(count_);
    forget_residual();
    if (!owns() || whole.count == 0) return;
    feedback_.emplace(rules, count_, arrays);
    if (!in_place) wide_ = Array(count_);
    exchange_ = algorithm.packed()
                    ? Arrays::make_packed(algorithm, mine, compressor)
                    : Arrays::staged(compressor.row->exchange(compressor.parameters, linear_spec(whole, algorithm)), mine);
  }

  /// Return the range of elements of which this rank keeps a residual.
  [[nodiscard]] std::int64_t begin() const { return map_ && owns() ? map_->begin(map_->mine()) : 0; }
  [[nodiscard]] std::int64_t size() const { return count_; }

  /// Overwrites `data`, the gradient, with the update, unless the outcome has an error.
  task<StepOutcome> exchange(Channel channel, G* data, ErrorReport input_error, std::int64_t iteration) {
    if (!input_error && in_node_ && !in_node_->usable()) input_error = ErrorReport(InputError::nccl_aborted, channel.rank());
    input_error = co_await soundness_.check(channel, data, input_error);
    StepOutcome outcome;
    outcome.k = whole_count_;
    {
      const StageScope stage = channel.stage(Stage::exchange);
      outcome.input_error = co_await soundness_.agree(channel, input_error);
    }
    if (outcome.input_error) co_return outcome;
    co_await sum(channel, data, iteration);
    if constexpr (in_place) {  // check_compression() refuses others
      if (estimate_) estimate_.deliver(data, {nullptr, data, whole_count_});
    }
    outcome.selected_local = outcome.selected_global = whole_count_;
    co_return outcome;
  }

  /// Encodes this rank's contribution without messages. Only for packed compressors, and only without shards.
  std::int64_t encode(encoded::Writer& writer, const G* gradient, std::int64_t iteration, std::byte* out) {
    const T* const values = feedback_ ? run_here(compensated(gradient)) : gradient;  // without it there are no elements
    return writer.write_packed(draw(iteration), values, out, residual_.data());
  }
  /// Returns true if the ranks of a node share what they exchange.
  [[nodiscard]] bool in_nodes() const { return map_.has_value(); }

  [[nodiscard]] std::span<const T> residual() const { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }
  /// Takes over the residual and the feedback of `other`, which must be of the same elements.
  void take(PackedRun& other) {
    std::swap(residual_, other.residual_);
    if (feedback_ && other.feedback_) feedback_->take(*other.feedback_);
  }
  void reset() {
    if (feedback_) feedback_->reset();
    if (exchange_) exchange_->reset();
    forget_residual();
  }
  void scale(double factor) {
    if (residual_.size() > 0) arrays_.rescale(residual_.data(), residual_.size(), static_cast<T>(factor));
    if (feedback_) feedback_->scale(factor);
  }
  void visit_state(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    visitor.array("residual", residual_.data(), residual_.size(), copy);
    if (feedback_) feedback_->visit_state(visitor, copy);
    if (!exchange_) return;
    const StateVisitor::Scope scope(visitor, "exchange");
    exchange_->visit_state(visitor);
  }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return residual_.bytes() + wide_.bytes() + (feedback_ ? feedback_->memory_bytes() : 0) +
           (exchange_ ? exchange_->memory_bytes() : 0) + (in_node_ ? in_node_->memory_bytes() : 0);
  }

 private:
  using Array = typename Arrays::template Array<T>;
  /// True if the update can be written over the gradient without conversion.
  static constexpr bool in_place = std::is_same_v<G, T>;

  task<void> sum(Channel channel, G* data, std::int64_t iteration) {
    if (map_) co_await in_node_->reduce_scatter(channel, data);
    if (exchange_) {
      G* const part = data + begin();
      const T* const values = co_await compensate(channel, part);
      const StageScope stage = channel.stage(Stage::exchange);
      if constexpr (in_place) {
        co_await exchange_->run(exchange_channel(channel), draw(iteration), values, residual_.data(), part);
      } else {
        co_await exchange_->run(exchange_channel(channel), draw(iteration), values, residual_.data(), wide_.data());
        arrays_.narrow(wide_.data(), part, count_);
      }
    }
    if (map_) co_await in_node_->allgather(channel, data);
  }

  [[nodiscard]] Draw draw(std::int64_t iteration) const { return {seed_, static_cast<std::uint64_t>(iteration), rank_}; }
  [[nodiscard]] bool owns() const { return !map_ || map_->mine() >= 0; }

  [[nodiscard]] Channel exchange_channel(Channel whole) const { return map_ ? whole.group(map_->rail()) : whole; }

  static LinearSpec linear_spec(const ExchangeSpec& whole, const AllreduceRow& algorithm) {
    const auto make_dense = [whole, &algorithm](std::int64_t count, double divisor) {
      ExchangeSpec part = whole;
      part.count = count;
      part.divisor = divisor;
      part.shared = {};  // in shared memory a second sum would overwrite the first before all ranks have read it
      return algorithm.make_dense<float>(part);
    };
    return {whole.count, whole.final_k, whole.ranks, whole.divisor, make_dense};
  }

  void forget_residual() {
    if (residual_.size() == 0) return;
    arrays_.fill_zero(residual_.data(), residual_.size());
    arrays_.finish();
  }

  task<const T*> compensate(Channel channel, const G* gradient) {
    const StageScope stage = channel.stage(Stage::select);
    co_return co_await compensated(gradient);
  }
  /// Returns the array to compress: the residual if there is one.
  task<const T*> compensated(const G* gradient) {
    if (feedback_->idle()) co_return taken_up(gradient);
    const T* const prepared = co_await feedback_->prepare(gradient, residual_.data());
    feedback_->commit();
    if (residual_.size() == 0) co_return prepared;
    arrays_.add(prepared, residual_.data(), count_);
    co_return residual_.data();
  }
  const T* taken_up(const G* gradient) {
    if (residual_.size() > 0) {
      arrays_.add(gradient, residual_.data(), count_);
      return residual_.data();
    }
    if constexpr (in_place) {
      return gradient;
    } else {
      arrays_.waxpby(T{1}, gradient, T{0}, nullptr, wide_.data(), count_);
      return wide_.data();
    }
  }

  Arrays& arrays_;
  Estimate<Arrays>& estimate_;
  std::uint64_t seed_;
  std::uint32_t rank_;
  std::int64_t whole_count_;
  std::int64_t count_;  // of this rank's shard if the algorithm shards
  Soundness<Arrays> soundness_;
  std::optional<ShardMap> map_;
  std::optional<typename Arrays::NodeShards> in_node_;
  std::optional<ErrorFeedback<Arrays>> feedback_;
  std::unique_ptr<CompressedExchange> exchange_;
  Array residual_;  // empty without error feedback
  Array wide_;      // if gradients are narrower: first the gradient, then the update
};

}  // namespace weir::detail
