// typed_step.hpp: a step for one memory and element type. Both memories share one control flow. The iteration says what a run does:
// it sums whole gradients in place; it compresses the gradient and exchanges it as bytes, dense values or factors, in place; or it
// exchanges entries.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "collectives/compressed_exchange.hpp"
#include "communicator/input_error.hpp"
#include "contribution/contribution.hpp"
#include "plan/estimate.hpp"
#include "plan/plan_config.hpp"
#include "plan/step.hpp"

namespace weir::detail {

/// Gradients are of type G. Computed and kept values are of type T.
template <class Arrays>
class TypedStep final : public Step {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// See PlanMemory::make_step. In CUDA memory dense runs need `nccl`. Algorithms that shard need it too, and run flat without it.
  /// `in_nodes`: the ranks of a node may sum their gradients first.
  TypedStep(const CommunicatorState& comm, Channel channel, const AllreduceConfig& configuration, const ExchangeSpec& whole,
            NcclGroups* nccl, bool in_nodes)
      : Step(comm, configuration, whole, in_nodes),
        arrays_(channel, whole.stream, exchange_.count, row_.sparse() ? selection().values_on_host() : 0, whole.threads),
        estimate_(config_.error_feedback == Feedback::ef21 ? config_.count : 0, whole.divisor, arrays_) {
    if (row_.dense() && !compressor_)
      dense_ = Arrays::make_dense(row_.name, whole, nccl);
    else if (config_.dense_iterations > 0)
      dense_ = Arrays::make_dense(algorithm_of_dense_runs(), of_dense_runs(whole), nccl);
    const FeedbackRules feedback = feedback_rules(config_, compressor_, whole.ranks);
    if (row_.sparse()) prepare_entries(whole, feedback, nccl);
    if constexpr (compresses) {
      if (compressor_ && !row_.sparse()) prepare_packing(whole, feedback, nccl);
    }
  }

  task<StepOutcome> exchange(Channel channel, StepInput input) override {
    update_ = {};
    const std::int64_t k = scheduled(input.iteration);
    if (!input.input_error && (k < 0 || estimate_) && input.dense == nullptr && config_.count > 0)
      input.input_error = ErrorReport(InputError::dense_only, channel.rank());
    return k >= 0 ? exchange_entries(channel, input, k) : exchange_whole(channel, input);
  }

  void apply(const StepOutcome& outcome, Verdict verdict, bool has_owner, void* dense) override {
    G* const result = has_owner || !outcome.sparse ? static_cast<G*>(dense) : nullptr;
    if (!outcome.sparse) {
      if (verdict == Verdict::skipped) arrays_.fill_zero(result, config_.count);
      return;
    }
    // Ok-Topk Algorithm 2: 3. what was delivered leaves the residual
    if (selected_ && verdict == Verdict::delivered)
      contribution_->settle(mine_.update, mine_.undelivered, mine_.undelivered_runs);
    else if (selected_)
      contribution_->roll_back(has_owner);
    update_ = verdict == Verdict::delivered ? whole_.update : SparseVector<T>{};

    // 4. the dense result
    if (verdict == Verdict::refused) return;
    if (estimate_ && verdict == Verdict::delivered)
      estimate_.deliver(result, update_);
    else if (result != nullptr)
      arrays_.densify(result, config_.count, update_);
  }

  std::int64_t encode(const float* gradient, std::int64_t iteration, std::byte* out, StepOutcome& outcome) override {
    if constexpr (std::is_same_v<Arrays, HostArrays<float>>) {
      update_ = {};
      if (row_.sparse()) return encode_entries(gradient, iteration, out, outcome);
      outcome.k = config_.count;
      if (!propagates() && kernels::host::count_non_finite(gradient, config_.count) > 0) {
        outcome.input_error = ErrorReport(InputError::non_finite, exchange_.topology->rank());
        return 0;
      }
      outcome.selected_local = config_.count;
      const T* const values = packed_ ? run_here(compensated(gradient)) : gradient;  // without it there are no elements
      return writer_->write_packed(draw(iteration), values, out, feedback_->residual().data());
    }
    return 0;
  }

  void reset() override {
    update_ = {};
    estimate_.reset();
    if (sparse_) sparse_->reset();
    if (contribution_) contribution_->reset();
    if (feedback_) feedback_->reset();
    if (packed_) packed_->reset();
  }
  void scale(double factor) override {
    estimate_.scale(factor);
    if (sparse_) sparse_->scale(factor);
    if (contribution_) contribution_->scale(factor);
    if (feedback_) feedback_->scale(factor);
    arrays_.finish();
  }
  void visit_state(StateVisitor& visitor) override {
    const Region mine = range_of(config_.count, residual_begin(), residual_size());
    visitor.text("algorithm", config_.algorithm, Share::layout);
    visitor.fixed("residual_begin", residual_begin(), Share::layout);
    if (sparse_) {
      const StateVisitor::Scope scope(visitor, "exchange");
      const StateVisitor::Placed placed(visitor, {Share::agreed, mine});
      sparse_->visit_state(visitor);
    }
    if (contribution_) {
      const StateVisitor::Scope scope(visitor, "selector");
      contribution_->visit_selector(visitor);
    }
    const StateVisitor::Copy copy = [this](void* to, const void* from, std::int64_t bytes) { arrays_.copy(to, from, bytes); };
    if (compressor_) visitor.text("compressor", compression_text(config_), Share::layout);
    {
      const StateVisitor::Placed placed(visitor, {Share::summed, mine});
      if (auto* const feedback = feedback_of(*this))
        feedback->visit_state(visitor, copy);
      else
        visitor.array("residual", static_cast<T*>(nullptr), 0, copy);
      if (packed_) {
        const StateVisitor::Scope scope(visitor, "exchange");
        packed_->visit_state(visitor);
      }
    }
    estimate_.visit_state(visitor, copy);
    if (visitor.restores()) update_ = {};
  }
  void take_residual(Step& other) override {
    auto& last = static_cast<TypedStep&>(other);
    estimate_.take(last.estimate_);
    auto *const here = feedback_of(*this), *const there = feedback_of(last);
    if (here != nullptr && there != nullptr) here->take(*there);
    last.reset();
  }
  void add_residual(void* gradient) const override {
    if constexpr (std::is_same_v<Arrays, HostArrays<T>>) {
      const AnyVector kept = residual();
      kernels::host::add(static_cast<const T*>(kept.values), static_cast<T*>(gradient) + residual_begin(), kept.count);
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    const auto bytes_of = [](const auto& part) { return part ? part->memory_bytes() : 0; };
    return arrays_.memory_bytes() + estimate_.memory_bytes() + wide_.bytes() + bytes_of(dense_) + bytes_of(sparse_) +
           bytes_of(packed_) + bytes_of(contribution_) + bytes_of(feedback_) + bytes_of(node_sum_) + bytes_of(node_gather_) +
           bytes_of(node_shards_) + bytes_of(writer_);
  }
  [[nodiscard]] AnyVector update() const override { return {update_.indices, update_.values, update_.count}; }
  [[nodiscard]] AnyVector residual() const override {
    const auto* const feedback = feedback_of(*this);
    const std::span<const T> kept = feedback != nullptr ? feedback->residual() : std::span<const T>();
    return {nullptr, kept.data(), static_cast<std::int64_t>(kept.size())};
  }
  [[nodiscard]] Explanation explanation() const override { return sparse_ ? sparse_->explanation() : Explanation{}; }

 private:
  using Array = typename Arrays::template Array<T>;
  static constexpr bool compresses = std::is_same_v<T, float>;
  /// True if what a compressed exchange delivers can be written over the gradient without conversion.
  static constexpr bool in_place = std::is_same_v<G, T>;

  /// Returns what keeps the residual, or nullptr if no residual can be kept on this rank.
  template <class Self>
  [[nodiscard]] static auto feedback_of(Self& step) -> decltype(&*step.feedback_) {
    return step.contribution_ ? &step.contribution_->feedback() : step.feedback_ ? &*step.feedback_ : nullptr;
  }

  /// Returns the channel of the ranks that exchange: of the owners of this rank's shard if there are shards.
  [[nodiscard]] Channel peers(Channel whole) const { return map_ ? whole.group(map_->rail()) : whole; }

  // Whole gradients.

  [[nodiscard]] std::string_view algorithm_of_dense_runs() const {
    return row_.dense() ? row_.name : map_ ? "dense_torus2d" : Arrays::flat_dense;
  }
  /// Applies feedback_gain, by which dense runs multiply gradients, too.
  [[nodiscard]] ExchangeSpec of_dense_runs(ExchangeSpec whole) const {
    whole.divisor /= config_.feedback_gain;
    return whole;
  }

  /// Overwrites the gradient with the update, unless the outcome has an error.
  task<StepOutcome> exchange_whole(Channel channel, StepInput input) {
    G* const data = static_cast<G*>(input.dense);
    const bool compressed = packs(input.iteration);
    const bool usable = compressed ? !node_shards_ || node_shards_->usable() : dense_->usable();
    if (!input.input_error && !usable) input.input_error = ErrorReport(InputError::nccl_aborted, channel.rank());
    const Key<T> first_wild = compressed ? first_wild_ : key_infinity<T>;
    input.input_error = co_await check(channel, data, input.input_error, first_wild);
    StageScope stage = channel.stage(Stage::exchange, channel.boundary());
    StepOutcome outcome;
    outcome.k = config_.count;
    if (!compressed)
      outcome.input_error = co_await dense_->agree_and_run(channel, data, input.input_error);
    else
      outcome.input_error = co_await agreement_.run(channel, input.input_error);
    if (outcome.input_error) co_return outcome;
    if constexpr (compresses) {
      stage.end();
      if (compressed) co_await sum_packed(channel, data, input.iteration);
    }
    outcome.selected_local = outcome.selected_global = config_.count;
    co_return outcome;
  }

  /// Returns the error in this rank's gradient, or `input_error` if that is one. Every magnitude must have a key below
  /// `first_wild`.
  task<ErrorReport> check(Channel channel, const G* gradient, ErrorReport input_error, Key<T> first_wild) {
    if (input_error || propagates() || config_.count == 0) co_return input_error;
    const StageScope stage = channel.stage(Stage::check_finite, channel.boundary());
    if (first_wild < key_infinity<T>)
      arrays_.exceedances(gradient, config_.count, first_wild);
    else
      arrays_.count_non_finite(gradient, config_.count);
    co_await arrays_.report();
    co_return arrays_.results().exceedances.count > 0 ? ErrorReport(InputError::non_finite, channel.rank()) : ErrorReport();
  }

  // What packed and linear compressors make, in float. Algorithms that exist only for host memory are staged.

  void prepare_packing(const ExchangeSpec& whole, const FeedbackRules& rules, NcclGroups* nccl) {
    ExchangeSpec mine = whole;
    if (map_) {
      node_shards_.emplace(*map_, whole, nccl);
      mine.count = residual_size();
      mine.ranks = static_cast<int>(map_->rail().size());
    }
    first_wild_ =
        SelectionSetup{.count = whole.count, .scales_up = compressor_.scales_up()}.template first_wild<T>(final_k(config_));
    const bool takes_part = owns() && whole.count > 0;
    feedback_.emplace(takes_part ? rules : FeedbackRules{}, residual_size(), keeps_residual(), arrays_);
    if (!takes_part) return;
    if (!in_place) wide_ = Array(residual_size());
    packed_ = row_.packed() ? Arrays::make_packed(row_, mine, compressor_)
                            : Arrays::staged(compressor_.row->exchange(compressor_.parameters, linear_spec(whole)), mine);
  }
  [[nodiscard]] LinearSpec linear_spec(const ExchangeSpec& whole) const {
    const auto make_dense = [whole, &row = row_](std::int64_t count, double divisor) {
      ExchangeSpec part = whole;
      part.count = count;
      part.divisor = divisor;
      part.shared = {};  // in shared memory a second sum would overwrite the first before all ranks have read it
      return row.template make_dense<float>(part);
    };
    return {whole.count, whole.final_k, whole.ranks, whole.divisor, make_dense};
  }

  task<void> sum_packed(Channel channel, G* data, std::int64_t iteration) {
    if (map_) co_await node_shards_->reduce_scatter(channel, data);
    if (packed_) {
      G* const part = data + residual_begin();
      StageScope stage = channel.stage(Stage::select);
      const T* const values = co_await compensated(part);
      stage.next(Stage::exchange);
      T* out = wide_.data();
      if constexpr (in_place) out = part;
      co_await packed_->run(peers(channel), draw(iteration), values, feedback_->residual().data(), out);
      if constexpr (!in_place) arrays_.narrow(out, part, residual_size());
    }
    if (map_) co_await node_shards_->allgather(channel, data);
    if constexpr (in_place) {  // check_compression() refuses others
      if (estimate_) estimate_.deliver(data, {nullptr, data, config_.count});
    }
  }
  /// Returns the array to compress: the residual if there is one.
  task<const T*> compensated(const G* gradient) {
    const std::span<T> residual = feedback_->residual();
    if (!feedback_->idle()) {
      const T* const prepared = co_await feedback_->prepare(gradient);
      feedback_->commit();
      if (residual.empty()) co_return prepared;
      arrays_.add(prepared, residual.data(), residual_size());
    } else if (!residual.empty()) {
      arrays_.add(gradient, residual.data(), residual_size());
    } else if constexpr (in_place) {
      co_return gradient;
    } else {
      arrays_.waxpby(T{1}, gradient, T{0}, nullptr, wide_.data(), residual_size());
      co_return wide_.data();
    }
    co_return residual.data();
  }

  // Entries.

  void prepare_entries(const ExchangeSpec& whole, const FeedbackRules& feedback, NcclGroups* nccl) {
    if (map_) {
      const std::int64_t most = row_.largest_update(spec_of_shard(whole, *map_, 0));
      node_sum_.emplace(*map_, whole, nccl);
      node_gather_.emplace(*map_, most, map_->shards() * most, whole);
      if (!owns()) return;
    }
    sparse_ = Arrays::make_sparse(row_, exchange_);
    const ContributionRules rules{.selection = selection(),
                                  .most_selected = exchange_.largest_local,
                                  .feedback = feedback,
                                  .keeps_residual = keeps_residual(),
                                  .refuses_non_finite = !propagates(),
                                  .wire = exchange_.wire()};
    contribution_.emplace(rules, arrays_);
  }

  task<StepOutcome> exchange_entries(Channel channel, StepInput input, std::int64_t k) {
    StepOutcome outcome;
    outcome.sparse = true;
    outcome.k = k;
    const G* gradient = static_cast<const G*>(input.gradient);
    if (map_) {  // CommLib Algorithm 2: 1. the node's sum of this rank's shard replaces the gradient
      gradient = co_await node_sum_->run(channel, gradient, input.caller_waits, input.input_error);
      input.input_error = node_sum_->input_error();
      k = owns() ? map_->part_of(k, map_->mine(), input.iteration) : 0;
    }

    // Ok-Topk Algorithm 2: 1. compensate and select in one pass
    selected_ = !input.input_error && contribution_.has_value();
    StageScope stage = channel.stage(Stage::select, channel.boundary());
    bool finite = true;
    if (selected_) finite = co_await contribution_->select(gradient, k, draw(input.iteration));
    if (!finite) input.input_error = ErrorReport(InputError::non_finite, channel.rank());
    if (selected_ && finite) outcome.selected_local = contribution_->selection().count;

    // 2. exchange
    stage.next(Stage::exchange);
    mine_ = {};
    mine_.input_error = input.input_error;
    if (sparse_) {
      const SparseVector<T> local = selected_ && finite ? contribution_->travelling() : SparseVector<T>{};
      mine_ = co_await sparse_->run(peers(channel), local, k, input.input_error);
    }
    stage.end();
    whole_ = mine_;
    if (map_) {  // CommLib Algorithm 2: 4. all shards' updates
      const StageScope gathering = channel.stage(Stage::in_node_allgather);
      whole_ = co_await node_gather_->run(channel.group(map_->node()), mine_);
    }

    outcome.input_error = whole_.input_error;
    outcome.selected_global = outcome.input_error ? 0 : whole_.update.count;
    outcome.rethresholded = contribution_ && contribution_->rethresholded();
    outcome.counters = row_.counters;
    outcome.counted = whole_.counted;
    co_return outcome;
  }

  /// Writes this rank's contribution as bytes. All selected entries count as delivered. Returns 0, and leaves the residual
  /// unchanged, if the gradient is not finite and must be.
  std::int64_t encode_entries(const G* gradient, std::int64_t iteration, std::byte* out, StepOutcome& outcome) {
    outcome.k = scheduled(iteration);
    if (!run_here(contribution_->select(gradient, outcome.k, draw(iteration)))) {
      contribution_->roll_back(true);
      outcome.input_error = ErrorReport(InputError::non_finite, exchange_.topology->rank());
      return 0;
    }
    outcome.selected_local = contribution_->selection().count;
    outcome.rethresholded = contribution_->rethresholded();
    const std::int64_t bytes = writer_->write_sparse(contribution_->travelling(), out);
    contribution_->settle(contribution_->selection());
    return bytes;
  }

  Arrays arrays_;
  Estimate<Arrays> estimate_;
  std::unique_ptr<DenseAllreduce<G>> dense_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;        // among the owners of a shard if there are shards
  std::unique_ptr<CompressedExchange> packed_;        // likewise
  std::optional<Contribution<Arrays>> contribution_;  // of entries, likewise
  std::optional<ErrorFeedback<Arrays>> feedback_;     // of packed_
  Array wide_;                                        // for packed_, if gradients are narrower: first the gradient, then the update
  Key<T> first_wild_ = key_infinity<T>;               // of packed_
  std::optional<typename Arrays::NodeSum> node_sum_;
  std::optional<NodeAllgather<T, typename Arrays::Space>> node_gather_;
  std::optional<typename Arrays::NodeShards> node_shards_;
  ErrorAgreement agreement_;  // of compressed exchanges
  SparseVector<T> update_;
  // Valid from exchange() to apply():
  bool selected_ = false;
  SparseOutcome<T> whole_, mine_;  // mine_: of the exchange to which this rank contributed
};

}  // namespace weir::detail
