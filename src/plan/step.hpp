// step.hpp: gradient in, update out, with one algorithm; and the state kept between runs. A run is dense, packed or sparse; the
// iteration decides which. Both memories share one control flow.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/switch_groups.hpp"
#include "communicator/communicator.hpp"
#include "contribution/host_arrays.hpp"
#include "plan/compression.hpp"
#include "plan/dense_run.hpp"
#include "plan/encoded.hpp"
#include "plan/estimate.hpp"
#include "plan/packed_run.hpp"
#include "plan/plan_config.hpp"
#include "plan/sparse_run.hpp"
#include "plan/step_outcome.hpp"

namespace weir::detail {

template <class Arrays>
class Step {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `configuration` names an algorithm. `whole` is the exchange that the step is for. `channel` is that of the plan's runs. In
  /// CUDA memory dense runs need `nccl`. Algorithms that shard need it too, and run flat without it. `comm` and what `whole` refers
  /// to must outlive the step.
  Step(const CommunicatorState& comm, Channel channel, const AllreduceConfig& configuration, const ExchangeSpec& whole,
       NcclGroups* nccl, bool in_nodes)
      : compressor_(compressor_of(configuration)),
        config_(in_force(configuration, whole, compressor_)),
        row_(row_in_force(comm, config_)),
        in_nodes_(in_nodes && row_.sharded),
        exchange_(exchange_in_force(whole, row_, in_nodes_)),
        arrays_(channel, whole.stream, exchange_.count, values_on_host(), whole.threads),
        estimate_(config_.error_feedback == Feedback::ef21 ? config_.count : 0, whole.divisor, arrays_) {
    const bool propagates = config_.non_finite == NonFinite::propagate;
    if (row_.dense() && !compressor_)
      dense_.emplace(Arrays::make_dense(row_.name, whole, nccl), config_.count, propagates, arrays_);
    else if (config_.dense_iterations > 0)
      dense_.emplace(Arrays::make_dense(algorithm_of_dense_runs(), of_dense_runs(whole), nccl), config_.count, propagates, arrays_);
    const FeedbackRules feedback = feedback_rules(config_, compressor_, whole.ranks);
    if (row_.sparse()) {
      const ContributionRules rules{.selection = selection_of(config_, row_, compressor_, exchange_),
                                    .most_selected = exchange_.largest_local,
                                    .feedback = feedback,
                                    .keeps_residual = config_.error_feedback != Feedback::none,
                                    .refuses_non_finite = !propagates,
                                    .wire = exchange_.wire()};
      sparse_.emplace(config_, whole, exchange_, row_, rules, nccl, in_nodes_, arrays_, estimate_);
    }
    if constexpr (compresses) {
      if (compressor_ && !row_.sparse())
        packed_.emplace(config_, whole, row_, compressor_, feedback, nccl, in_nodes_, arrays_, estimate_);
    }
  }

  /// Sends and receives all messages of a run.
  task<StepOutcome> exchange(Channel channel, StepInput<G> input) {
    if (sparse_) sparse_->forget_update();
    const std::int64_t k = scheduled(input.iteration);
    if (!input.input_error && (k < 0 || estimate_) && input.dense == nullptr && config_.count > 0)
      input.input_error = ErrorReport(InputError::dense_only, channel.rank());
    if (k >= 0) co_return co_await sparse_->exchange(channel, input, k);
    if constexpr (compresses) {
      if (packed_ && input.iteration >= config_.dense_iterations)
        co_return co_await packed_->exchange(channel, input.dense, input.input_error, input.iteration);
    }
    co_return co_await dense_->exchange(channel, input.dense, input.input_error);
  }
  /// Does the rest of the run, without messages. `has_owner`: the caller's gradient may still be touched.
  void apply(const StepOutcome& outcome, Verdict verdict, bool has_owner, G* dense) {
    if (outcome.sparse)
      sparse_->apply(verdict, has_owner, has_owner ? dense : nullptr);
    else if (verdict == Verdict::skipped)
      arrays_.fill_zero(dense, config_.count);
  }

  // Runs without messages; see PlanImpl.

  /// Returns the most bytes of one encoded gradient.
  std::int64_t prepare_encoding() {
    const std::string_view why = why_not_encoded();
    if (!why.empty()) fail(WEIR_ERR_STATE, "plan '{}' cannot encode: {}", config_.name, why);
    if (!writer_) writer_.emplace(compressor_, config_.count, exchange_.largest_local, exchange_.wire());
    return writer_->most_bytes();
  }
  /// Returns how many bytes it has written: 0 if the outcome has an error, and encode_zeros() then writes the message.
  std::int64_t encode(const float* gradient, std::int64_t iteration, std::byte* out, StepOutcome& outcome) {
    if constexpr (encodes) {
      if (sparse_) {
        sparse_->forget_update();
        outcome.k = scheduled(iteration);
        return sparse_->encode(*writer_, gradient, outcome.k, iteration, out, outcome);
      }
      outcome.k = config_.count;
      if (config_.non_finite != NonFinite::propagate && kernels::host::count_non_finite(gradient, config_.count) > 0) {
        outcome.input_error = ErrorReport(InputError::non_finite, exchange_.topology->rank());
        return 0;
      }
      outcome.selected_local = config_.count;
      return packed_->encode(*writer_, gradient, iteration, out);
    }
    return 0;
  }
  std::int64_t encode_zeros(std::byte* out) { return writer_->write_zeros(out); }

  void reset() {
    estimate_.reset();
    for_each_part([](auto& part) { part.reset(); });
  }
  /// Multiplies by `factor` what is kept of gradients.
  void scale(double factor) {
    estimate_.scale(factor);
    for_each_part([&](auto& part) { part.scale(factor); });
    arrays_.finish();
  }
  /// Visits all that reset() resets, and the description of what it belongs to.
  void visit_state(StateVisitor& visitor) {
    const Region mine = range_of(config_.count, residual_begin(), residual_size());
    visitor.text("algorithm", config_.algorithm, Share::layout);
    visitor.fixed("residual_begin", residual_begin(), Share::layout);
    if (sparse_) sparse_->visit_algorithm(visitor, mine);
    const StateVisitor::Copy copy = [this](void* to, const void* from, std::int64_t bytes) { arrays_.copy(to, from, bytes); };
    if (compressor_) visitor.text("compressor", compression_text(config_), Share::layout);
    {
      const StateVisitor::Placed placed(visitor, {Share::summed, mine});
      if (sparse_)
        sparse_->visit_residual(visitor, copy);
      else if (packed_)
        packed_->visit_state(visitor, copy);
      else
        visitor.array("residual", static_cast<T*>(nullptr), 0, copy);
    }
    estimate_.visit_state(visitor, copy);
    if (visitor.restores() && sparse_) sparse_->forget_update();
  }
  /// Returns true if both steps keep the same state, so that it can be moved. The answer is the same on all ranks.
  [[nodiscard]] bool keeps_the_same(const Step& other) const {
    return compressor_.row == other.compressor_.row && compressor_.parameters == other.compressor_.parameters &&
           sums_in_nodes() == other.sums_in_nodes();
  }
  /// Moves the state of `last`, which keeps the same state, into this step, which must be as new. `last` is as new afterwards.
  void take_residual(Step& last) {
    estimate_.take(last.estimate_);
    if (sparse_ && last.sparse_) sparse_->take(*last.sparse_);
    if (packed_ && last.packed_) packed_->take(*last.packed_);
    last.reset();
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return arrays_.memory_bytes() + estimate_.memory_bytes() + (dense_ ? dense_->memory_bytes() : 0) +
           (sparse_ ? sparse_->memory_bytes() : 0) + (packed_ ? packed_->memory_bytes() : 0) +
           (writer_ ? writer_->memory_bytes() : 0);
  }
  [[nodiscard]] std::int64_t residual_begin() const { return sparse_ ? sparse_->begin() : packed_ ? packed_->begin() : 0; }
  [[nodiscard]] std::span<const T> residual() const {
    return sparse_ ? sparse_->residual() : packed_ ? packed_->residual() : std::span<const T>();
  }
  [[nodiscard]] SparseVector<T> update() const { return sparse_ ? sparse_->update() : SparseVector<T>{}; }
  /// Returns true if the run of that iteration exchanges the gradient in place. The same on all ranks.
  [[nodiscard]] bool in_place(std::int64_t iteration) const { return scheduled(iteration) < 0; }
  [[nodiscard]] const AllreduceConfig& config() const { return config_; }
  [[nodiscard]] Explanation explanation() const { return sparse_ ? sparse_->explanation() : Explanation{}; }

 private:
  static constexpr bool encodes = std::is_same_v<Arrays, HostArrays<float>>;
  static constexpr bool compresses = std::is_same_v<T, float>;

  [[nodiscard]] static AllreduceConfig in_force(AllreduceConfig config, const ExchangeSpec& whole,
                                                const compress::Compressor& compressor) {
    config.error_feedback = feedback_of(config, compressor);
    config.algorithm_parameters = whole.parameters.text();
    config.compressor = compressor ? compressor.row->name : "none";
    config.compressor_parameters = compressor.parameters.text();
    const AllreduceRow& row = find_allreduce(config.algorithm);
    if (!row.sparse()) return config;
    const ThresholdMethod threshold = threshold_in_force(config, row.threshold);
    config.threshold = threshold.row->name;
    config.threshold_parameters = threshold.parameters.text();
    return config;
  }
  /// Returns the algorithm's row, or the row that replaces it if the transport lacks what the algorithm needs. Logs what differs
  /// from the name.
  [[nodiscard]] static const AllreduceRow& row_in_force(const CommunicatorState& comm, const AllreduceConfig& config) {
    const AllreduceRow& row = find_allreduce(config.algorithm);
    const auto say = [&](std::string_view what) {
      log(comm.settings.log, LogLevel::info, "rank {}: plan '{}': {} {}", comm.topology.rank(), config.name, row.name, what);
    };
    if (row.needs_allreduce && comm.transport->native_allreduce() == nullptr) {
      say("runs as dense_ring: the transport has no allreduce of its own");
      return find_allreduce("dense_ring");
    }
    if (row.sharded && comm.topology.largest_node() == 1) say("runs flat: there is one rank per node");
    if (row.by_switch) say(switch_groups_text(comm.topology));
    return row;
  }
  /// Returns the exchange in force. If entries travel and the algorithm shards, it is that among the owners of this rank's shard.
  [[nodiscard]] static ExchangeSpec exchange_in_force(const ExchangeSpec& whole, const AllreduceRow& row, bool in_nodes) {
    ExchangeSpec exchange = row.sparse() && in_nodes ? spec_of_own_shard(whole) : whole;
    exchange.along_switches = row.by_switch && exchange.ranks == whole.topology->node_count();
    return exchange;
  }
  [[nodiscard]] std::int64_t values_on_host() const {
    if (!row_.sparse()) return 0;
    const SelectionSetup setup = selection_of(config_, row_, compressor_, exchange_);
    return setup.estimates() ? setup.capacity() : 0;
  }

  [[nodiscard]] std::string_view algorithm_of_dense_runs() const {
    return row_.dense() ? row_.name : in_nodes_ ? "dense_torus2d" : Arrays::flat_dense;
  }
  /// Applies feedback_gain, by which dense runs multiply gradients, too.
  [[nodiscard]] ExchangeSpec of_dense_runs(ExchangeSpec whole) const {
    whole.divisor /= config_.feedback_gain;
    return whole;
  }
  /// Returns k of an iteration; a negative number for one that is not sparse.
  [[nodiscard]] std::int64_t scheduled(std::int64_t iteration) const { return sparse_ ? scheduled_k(config_, iteration) : -1; }

  /// Returns true if the ranks of a node sum their gradients first, and each keeps the residual of its shard.
  [[nodiscard]] bool sums_in_nodes() const { return (sparse_ && sparse_->in_nodes()) || (packed_ && packed_->in_nodes()); }
  [[nodiscard]] std::int64_t residual_size() const { return sparse_ ? sparse_->size() : packed_ ? packed_->size() : config_.count; }
  /// Returns why encode() is refused, or an empty text if it is not.
  [[nodiscard]] std::string_view why_not_encoded() const {
    if (!encodes && config_.memory == MemorySpace::cuda) return "its memory is cuda; encode takes host memory";
    if (!encodes) return "its type is float64; encode takes float32";
    if (!compressor_ || compressor_.row->carriage == compress::Carriage::linear)
      return "its compressor has dense values summed; name one that is sparse or packed, such as top_k or block_quantise";
    if (sums_in_nodes()) return "its algorithm sums within nodes first; name a flat one, such as oktopk or packed_allgather";
    if (config_.error_feedback == Feedback::ef21) return "error_feedback is ef21; choose residual or none";
    if (config_.dense_iterations > 0) return "its first runs are dense; dense_iterations must be 0";
    return {};
  }
  /// Calls `f` with each part that keeps state.
  template <class F>
  void for_each_part(F f) {
    if (sparse_) f(*sparse_);
    if (packed_) f(*packed_);
  }

  compress::Compressor compressor_;
  AllreduceConfig config_;
  const AllreduceRow& row_;
  bool in_nodes_;
  ExchangeSpec exchange_;
  Arrays arrays_;
  Estimate<Arrays> estimate_;
  std::optional<DenseRun<Arrays>> dense_;
  std::optional<PackedRun<Arrays>> packed_;
  std::optional<SparseRun<Arrays>> sparse_;
  std::optional<encoded::Writer> writer_;  // present once something has been encoded
};

}  // namespace weir::detail
