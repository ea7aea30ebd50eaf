// step.hpp: gradient in, update out, with one algorithm: compensate, select, exchange, apply; and the state of that which lives on.
// One control flow for both memories.
#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/switch_groups.hpp"
#include "communicator/input_error.hpp"
#include "contribution/contribution.hpp"
#include "plan/compressed.hpp"
#include "plan/compression.hpp"
#include "plan/plan.hpp"
#include "plan/plan_config.hpp"
#include "plan/sharding.hpp"

namespace weir::detail {

template <class Memory>
class Step {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  /// `config` names an algorithm, `whole` is what it is for; `plan`, whose run this is part of, outlives it. In CUDA memory dense
  /// steps need `nccl`, and those of algorithms that shard: without it they run flat.
  Step(PlanImpl& plan, const AllreduceConfig& configuration, const ExchangeSpec& whole, NcclGroups* nccl, bool in_nodes)
      : config_(configuration),
        compressor_(compressor_of(configuration)),
        feedback_(feedback_of(configuration, compressor_)),
        plan_(plan),
        comm_(*plan.comm),
        statistics_(plan.statistics) {
    config_.algorithm_parameters = whole.parameters.text();
    config_.compressor = compressor_ ? compressor_.row->name : "none";
    config_.compressor_parameters = compressor_.parameters.text();
    config_.error_feedback = feedback_;
    const AllreduceRow& row = row_in_force();
    const FeedbackRules rules = feedback_rules(config_, compressor_, whole.ranks);
    in_nodes = in_nodes && row.sharded;
    if (feedback_ == Feedback::ef21) estimate_ = Array(config_.count);
    divisor_ = estimated_.divisor = whole.divisor;
    ExchangeSpec exchange = whole;
    if (row.sparse() && in_nodes) {
      sharding_.emplace(whole, row, nccl);
      if (sharding_->map.mine() >= 0)
        exchange = spec_of_shard(whole, sharding_->map, sharding_->map.mine());
      else
        exchange.count = exchange.largest_k = exchange.largest_local = 0;  // this rank only gives and receives
    }
    exchange.along_switches = row.by_switch && exchange.ranks == comm_.topology.node_count();
    SelectionSetup setup{exchange.count, exchange.largest_k, row.threshold.value_or(config_.threshold), config_.threshold_period,
                         config_.samplings};
    if (row.sparse() && compressor_.row->picking != compress::Picking::largest) {
      setup.threshold = Threshold::exact;
      setup.picking = compressor_.row->picking;
      if (compressor_.row->picking_value != nullptr) setup.picking_value = compressor_.row->picking_value(compressor_.parameters);
      setup.scales_up = compressor_.scales_up();
    }
    memory_.emplace(channel(), whole.stream, exchange.count, row.sparse() && setup.uses_moments() ? setup.capacity() : 0,
                    whole.threads);
    if (!row.sparse() && !compressor_) {
      dense_ = Memory::make_dense(row.name, whole, nccl);
      return;
    }
    if constexpr (compresses) {
      if (!row.sparse()) {
        if (config_.dense_iterations > 0)
          dense_ = Memory::make_dense(row.dense() ? row.name
                                      : in_nodes  ? "dense_torus2d"
                                                  : Memory::flat_dense,
                                      of_dense_runs(whole), nccl);
        compressed_.emplace(whole, config_.seed, row, compressor_, rules, feedback_ != Feedback::none, nccl, in_nodes, *memory_);
        forget_estimate();
        return;
      }
    }
    if (config_.dense_iterations > 0)
      dense_ = Memory::make_dense(in_nodes ? "dense_torus2d" : Memory::flat_dense, of_dense_runs(whole), nccl);
    forget_estimate();  // it is every rank's
    if (sharding_ && sharding_->map.mine() < 0) return;
    sparse_ = Memory::make_sparse(row, exchange);
    const Explanation text = sparse_->explanation();
    if (!text.how.empty()) plan_.explanation += fmt::format("{}\n  {}\n", text.how, text.why);
    contribution_.emplace(ContributionRules{.selection = setup,
                                            .most_selected = exchange.largest_local,
                                            .feedback = rules,
                                            .keeps_residual = feedback_ != Feedback::none,
                                            .refuses_non_finite = config_.non_finite != NonFinite::propagate,
                                            .wire = exchange.wire()},
                          *memory_);
  }

  /// The first part of a run: all messages. One of `dense`, to be overwritten with the update, and `sparse_only`, read, is the
  /// gradient.
  task<void> exchange(G* dense, const G* sparse_only, std::uint64_t input_error) {
    update_ = {};
    outcome_ = {};
    iteration_ = plan_.common_runs();
    const std::int64_t k = scheduled(iteration_);
    if (input_error == 0 && (k < 0 || estimate_.size() > 0) && dense == nullptr && config_.count > 0)
      input_error = input_error_word(InputError::dense_only, comm_.topology.rank());
    sparse_run_ = k >= 0;
    if (sparse_run_)
      co_await exchange_sparse(dense, dense != nullptr ? dense : sparse_only, k, input_error);
    else
      co_await exchange_dense(dense, input_error);
  }
  /// What is wrong with the gradients of a sparse run, on all ranks alike. After exchange(); a dense run has thrown it there.
  [[nodiscard]] std::uint64_t input_error() const { return outcome_.input_error; }
  /// The second part: residual and dense result. Without messages, since it awaits the caller, on whom they would depend.
  task<void> apply() {
    if (!sparse_run_) co_return;
    if (outcome_.input_error != 0 || dense_result_ != nullptr) {
      const StageScope stage = channel().stage(Stage::wait_for_caller);
      co_await channel().caller();
    }
    apply_sparse();
  }

  // Runs without messages, as PlanImpl has them; in step_encoding.hpp.
  std::int64_t prepare_encoding();
  std::int64_t encode(const float* gradient, std::byte* out);

  void reset() {
    update_ = {};
    if (sparse_) sparse_->reset();
    if (contribution_) contribution_->reset();
    if (compressed_) compressed_->reset();
    forget_estimate();
  }

  /// What is kept of gradients becomes `factor` times what it was.
  void scale(double factor) {
    if (estimate_.size() > 0) memory_->rescale(estimate_.data(), estimate_.size(), static_cast<T>(factor));
    if (sparse_) sparse_->scale(factor);
    if (contribution_) contribution_->scale(factor);
    if (compressed_) compressed_->scale(factor);
    memory_->finish();
  }

  /// All that reset() resets, and what it belongs to.
  void visit_state(StateVisitor& visitor) {
    const Region mine = range_of(config_.count, residual_begin(), residual_count());
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
    const StateVisitor::Copy copy = [this](void* to, const void* from, std::int64_t bytes) { memory_->copy(to, from, bytes); };
    if (compressor_) visitor.text("compressor", compression_text(config_), Share::layout);
    {
      const StateVisitor::Placed placed(visitor, {Share::summed, mine});
      if (contribution_)
        contribution_->visit_residual(visitor, copy);
      else if (compressed_)
        compressed_->visit_state(visitor, copy);
      else
        visitor.array("residual", static_cast<T*>(nullptr), 0, copy);
    }
    if (estimate_.size() > 0) {
      const StateVisitor::Placed placed(visitor, {Share::agreed, range_of(config_.count, 0, config_.count)});
      visitor.array("estimate", estimate_.data(), estimate_.size(), copy);
      visitor.state(estimated_);
    }
    if (visitor.restores()) update_ = {};
  }
  /// Whether both keep a residual of the same elements, and what else their compressors remember: on all ranks alike.
  [[nodiscard]] bool keeps_the_same(const Step& other) const {
    return compressor_.row == other.compressor_.row && compressor_.parameters == other.compressor_.parameters &&
           in_nodes() == other.in_nodes();
  }
  /// This step, which is fresh, goes on with the residual of `last`, which keeps the same and is fresh afterwards.
  void take_residual(Step& last) {
    std::swap(estimate_, last.estimate_);
    std::swap(estimated_, last.estimated_);
    if (contribution_ && last.contribution_) contribution_->take(*last.contribution_);
    if (compressed_ && last.compressed_) compressed_->take_residual(*last.compressed_);
    last.reset();
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return memory_->memory_bytes() + (contribution_ ? contribution_->memory_bytes() : 0) +
           (sparse_ ? sparse_->memory_bytes() : 0) + (dense_ ? dense_->memory_bytes() : 0) +
           (sharding_ ? sharding_->memory_bytes() : 0) +
           (compressed_ ? compressed_->memory_bytes() : 0) + estimate_.bytes() + (writer_ ? writer_->memory_bytes() : 0);
  }
  [[nodiscard]] std::int64_t residual_begin() const {
    return sharding_ ? sharding_->begin() : compressed_ ? compressed_->begin() : 0;
  }
  /// Whether the next run exchanges the gradient in place. The same on all ranks.
  [[nodiscard]] bool in_place() const { return scheduled(plan_.common_runs()) < 0; }

  [[nodiscard]] const AllreduceConfig& config() const { return config_; }
  [[nodiscard]] SparseVector<T> update() const { return update_; }
  [[nodiscard]] std::span<const T> residual() const {
    return contribution_ ? contribution_->residual() : compressed_ ? compressed_->residual() : std::span<const T>();
  }

 private:
  /// What lives on beside the estimate.
  struct Estimated {
    double divisor = 1;  ///< by which the updates in it were divided

    void visit(StateVisitor& visitor) {
      visitor.value("estimate_divisor", divisor);
      visitor.check(std::isfinite(divisor) && divisor >= 1, "estimate_divisor", "finite, and at least 1");
    }
  };

  using Array = typename Memory::template Array<T>;
  static constexpr bool encodes = std::is_same_v<Memory, HostMemory<float>>;
  using CompressedRun = Compressed<Memory>;
  static constexpr bool compresses = std::is_same_v<T, float>;

  /// Ranks of a node sum their gradients first, and each keeps what is of its shard.
  [[nodiscard]] bool in_nodes() const { return sharding_ || (compressed_ && compressed_->in_nodes()); }
  [[nodiscard]] std::int64_t residual_count() const {
    return sharding_ ? sharding_->size() : compressed_ ? compressed_->size() : config_.count;
  }

  /// The row of the algorithm, or of what takes its place where it would be meaningless.
  [[nodiscard]] const AllreduceRow& row_in_force() const {
    const AllreduceRow& row = find_allreduce(config_.algorithm);
    const auto say = [&](std::string_view what) {
      log(comm_.settings.log, LogLevel::info, "rank {}: plan '{}': {} {}", comm_.topology.rank(), config_.name, row.name, what);
    };
    if (row.needs_allreduce && !comm_.transport->has_allreduce()) {
      say("runs as dense_ring: the transport has no allreduce of its own");
      return find_allreduce("dense_ring");
    }
    if (row.sharded && comm_.topology.largest_node() == 1) say("runs flat: there is one rank per node");
    if (row.by_switch) say(switch_groups_text(comm_.topology));
    return row;
  }

  /// Of the first runs, which are dense: gradients are multiplied there, too.
  [[nodiscard]] ExchangeSpec of_dense_runs(ExchangeSpec whole) const {
    whole.divisor /= config_.feedback_gain;
    return whole;
  }

  /// k of an iteration; negative for a dense one.
  [[nodiscard]] std::int64_t scheduled(std::int64_t iteration) const {
    return sparse_ || sharding_ ? scheduled_k(config_, iteration) : -1;
  }

  [[nodiscard]] Channel channel() { return plan_.channel(); }

  void forget_estimate() {
    if (estimate_.size() == 0) return;
    memory_->fill_zero(estimate_.data(), estimate_.size());
    memory_->finish();
  }

  task<void> exchange_dense(G* data, std::uint64_t input_error) {
    const bool usable = (!dense_ || dense_->usable()) && (!compressed_ || compressed_->usable());
    if (input_error == 0 && !usable) input_error = input_error_word(InputError::nccl_aborted, comm_.topology.rank());
    if (input_error == 0 && config_.non_finite != NonFinite::propagate && config_.count > 0) {
      const StageScope stage = channel().stage(Stage::check_finite);
      if (compressed_ && iteration_ >= config_.dense_iterations && compressor_.scales_up())
        memory_->exceedances(data, config_.count,
                             SelectionSetup{.count = config_.count, .scales_up = true}.first_wild<T>(final_k(config_)));
      else
        memory_->count_non_finite(data, config_.count);
      co_await memory_->report();
      if (memory_->told().exceedances.count > 0) input_error = input_error_word(InputError::non_finite, comm_.topology.rank());
    }
    statistics_.k = config_.count;
    StageScope stage = channel().stage(Stage::exchange);
    words_[0] = input_error;
    {
      const StageScope agreement = channel().stage(Stage::agree);
      co_await allreduce_control(channel(), words_, 1, 1, words_ + 1);
    }
    if (plan_.is_accepted(words_[0])) {
      if (compressed_ && iteration_ >= config_.dense_iterations) {
        stage.end();
        co_await run_compressed(data);
      } else {
        co_await dense_->run(channel(), data);
      }
      statistics_.selected_local = statistics_.selected_global = config_.count;
    } else {
      memory_->fill_zero(data, config_.count);
    }
  }

  task<void> run_compressed(G* data) {
    if constexpr (compresses) {
      co_await compressed_->run(channel(), data, iteration_);
      if constexpr (std::is_same_v<G, T>) {  // check_compression() refuses others
        if (estimate_.size() > 0) deliver_estimate(data, {nullptr, data, config_.count});
      }
    }
  }

  /// EF21: the update is the sum of all that has been delivered, divided as updates are; restored from another number of ranks, it
  /// has been divided by that.
  void deliver_estimate(G* result, SparseVector<T> update) {
    if (const double last = std::exchange(estimated_.divisor, divisor_); last != divisor_)
      memory_->waxpby(static_cast<T>(last / divisor_), estimate_.data(), T{0}, nullptr, estimate_.data(), config_.count);
    if (update.indices == nullptr)
      memory_->add(update.values, estimate_.data(), update.count);
    else
      memory_->scatter_add(estimate_.data(), update, {});
    if (result != nullptr) memory_->narrow(estimate_.data(), result, config_.count);
  }

  task<void> exchange_sparse(G* dense, const G* gradient, std::int64_t k, std::uint64_t input_error) {
    statistics_.k = k;
    if (sharding_) {  // CommLib Algorithm 2: 1. the node's sum of my shard takes the place of the gradient
      gradient = co_await sharding_->node_sum.run(channel(), gradient, plan_.caller_waits(), input_error);
      input_error = sharding_->node_sum.input_error();
      k = sharding_->share(k, iteration_);
    }

    // Ok-Topk Algorithm 2: 1. compensate and select in one pass
    selected_ = input_error == 0 && contribution_.has_value();
    StageScope stage = channel().stage(Stage::select);
    bool finite = true;
    if (selected_) finite = co_await contribution_->select(gradient, k, draw());
    if (!finite) input_error = input_error_word(InputError::non_finite, comm_.topology.rank());
    statistics_.selected_local = selected_ && finite ? contribution_->selection().count : 0;

    // 2. exchange
    stage.next(Stage::exchange);
    outcome_.input_error = input_error;
    if (sparse_) {
      const SparseVector<T> local = selected_ && finite ? contribution_->travelling() : SparseVector<T>{};
      outcome_ = co_await sparse_->run(exchange_channel(), local, k, input_error);
    }
    stage.end();
    mine_ = outcome_;
    if (sharding_) outcome_ = co_await sharding_->allgather(channel(), outcome_);
    dense_result_ = dense;
  }

  void apply_sparse() {
    const StageScope stage = channel().stage(Stage::apply);
    if (outcome_.input_error != 0) {
      if (selected_) contribution_->roll_back(plan_.has_owner());
      statistics_.selected_local = 0;
    }
    if (plan_.is_accepted(outcome_.input_error)) {
      // 3. what was delivered leaves the residual
      if (selected_) contribution_->settle(mine_.update, mine_.undelivered, mine_.undelivered_runs);
      update_ = outcome_.update;
    }
    statistics_.selected_global = update_.count;
    statistics_.rethresholded = outcome_.rethresholded || (contribution_ && contribution_->rethresholded());
    statistics_.recut = outcome_.recut;
    statistics_.balanced = outcome_.balanced;
    log(comm_.settings.log, LogLevel::debug, "rank {}: plan '{}', iteration {}: {} local, {} global entries{}{}{}{}",
        comm_.topology.rank(), config_.name, statistics_.iteration, statistics_.selected_local, statistics_.selected_global,
        outcome_.recut ? ", re-cut" : "", outcome_.balanced ? ", balanced" : "",
        statistics_.rethresholded ? ", re-thresholded" : "", statistics_.skipped ? ", skipped" : "");

    // 4. the dense result
    G* const result = plan_.has_owner() ? dense_result_ : nullptr;
    if (estimate_.size() > 0 && !statistics_.skipped) {
      deliver_estimate(result, update_);
    } else if (result != nullptr) {
      memory_->densify(result, config_.count, update_);
    }
  }

  [[nodiscard]] Draw draw() const {
    return {static_cast<std::uint64_t>(config_.seed), static_cast<std::uint64_t>(iteration_),
            static_cast<std::uint32_t>(comm_.topology.rank())};
  }

  [[nodiscard]] Channel exchange_channel() { return sharding_ ? channel().group(sharding_->map.rail()) : channel(); }

  [[nodiscard]] std::string_view why_not_encoded() const;
  std::int64_t encode_packed(const float* gradient, std::byte* out);
  std::int64_t encode_sparse(const float* gradient, std::byte* out);
  std::int64_t encode_nothing(std::byte* out);

  AllreduceConfig config_;
  compress::Compressor compressor_;
  Feedback feedback_;
  PlanImpl& plan_;
  CommunicatorState& comm_;
  Statistics& statistics_;
  std::optional<Memory> memory_;
  Array estimate_;  // EF21: the sum of all updates
  Estimated estimated_;
  double divisor_ = 1;  // of updates
  std::unique_ptr<DenseAllreduce<G>> dense_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  std::optional<Contribution<Memory>> contribution_;  // of sparse runs, to the exchange of my shard where the algorithm shards
  std::optional<Sharding<Memory>> sharding_;
  std::optional<CompressedRun> compressed_;
  std::optional<encoded::Writer> writer_;  // once something has been encoded
  SparseVector<T> update_;
  std::int64_t iteration_ = 0;  // of the schedule
  // From exchange() to apply():
  bool sparse_run_ = false, selected_ = false;
  G* dense_result_ = nullptr;
  SparseOutcome<T> outcome_, mine_;  // of the whole, and of the exchange that this rank contributed to
  std::uint64_t words_[2] = {};
};

}  // namespace weir::detail

#include "plan/step_encoding.hpp"
