// sparse_run.hpp: a run that exchanges entries (Ok-Topk Algorithm 2; CommLib Algorithm 2 if the algorithm shards): compensate,
// select, exchange. Once the caller's gradient may be touched, it updates the residual and writes the dense result.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/allreduce.hpp"
#include "communicator/input_error.hpp"
#include "compress/compressor.hpp"
#include "contribution/contribution.hpp"
#include "plan/encoded.hpp"
#include "plan/estimate.hpp"
#include "plan/sharding.hpp"
#include "plan/step_outcome.hpp"

namespace weir::detail {

/// Returns how a rank selects what it contributes to `exchange`.
[[nodiscard]] inline SelectionSetup selection_of(const AllreduceConfig& config, const AllreduceRow& row,
                                                 const compress::Compressor& compressor, const ExchangeSpec& exchange) {
  SelectionSetup setup{.count = exchange.count, .largest_k = exchange.largest_k};
  if (compressor.row->picking == compress::Picking::largest) {
    setup.threshold = threshold_of(config, row.threshold);
    return setup;
  }
  setup.picking = compressor.row->picking;
  if (compressor.row->picking_value != nullptr) setup.picking_value = compressor.row->picking_value(compressor.parameters);
  setup.scales_up = compressor.scales_up();
  return setup;
}

template <class Arrays>
class SparseRun {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `exchange` is the exchange that this rank takes part in: `whole`, or that of its shard (spec_of_own_shard) if `in_nodes`.
  /// `arrays` and `estimate` must outlive the object.
  SparseRun(const AllreduceConfig& config, const ExchangeSpec& whole, const ExchangeSpec& exchange, const AllreduceRow& row,
            const ContributionRules& rules, NcclGroups* nccl, bool in_nodes, Arrays& arrays, Estimate<Arrays>& estimate)
      : arrays_(arrays),
        estimate_(estimate),
        seed_(static_cast<std::uint64_t>(config.seed)),
        rank_(static_cast<std::uint32_t>(whole.topology->rank())),
        count_(whole.count),
        counters_(row.counters) {
    if (in_nodes) sharding_.emplace(whole, row, nccl);
    if (sharding_ && sharding_->map.mine() < 0) return;  // this rank only passes gradients on and receives the result
    algorithm_ = Arrays::make_sparse(row, exchange);
    contribution_.emplace(rules, arrays);
  }

  /// Sends and receives all messages of a run. After that the caller's gradient must not be touched until apply().
  task<StepOutcome> exchange(Channel channel, const StepInput<G>& input, std::int64_t k) {
    StepOutcome outcome;
    outcome.sparse = true;
    outcome.k = k;
    ErrorReport input_error = input.input_error;
    const G* gradient = input.gradient();
    if (sharding_) {  // CommLib Algorithm 2: 1. the node's sum of this rank's shard replaces the gradient
      gradient = co_await sharding_->node_sum.run(channel, gradient, input.caller_waits, input_error);
      input_error = sharding_->node_sum.input_error();
      k = sharding_->share(k, input.iteration);
    }

    // Ok-Topk Algorithm 2: 1. compensate and select in one pass
    selected_ = !input_error && contribution_.has_value();
    StageScope stage = channel.stage(Stage::select);
    bool finite = true;
    if (selected_) finite = co_await contribution_->select(gradient, k, draw(input.iteration));
    if (!finite) input_error = ErrorReport(InputError::non_finite, channel.rank());
    if (selected_ && finite) outcome.selected_local = contribution_->selection().count;

    // 2. exchange
    stage.next(Stage::exchange);
    whole_ = {};
    whole_.input_error = input_error;
    if (algorithm_) {
      const SparseVector<T> local = selected_ && finite ? contribution_->travelling() : SparseVector<T>{};
      const Channel peers = sharding_ ? channel.group(sharding_->map.rail()) : channel;
      whole_ = co_await algorithm_->run(peers, local, k, input_error);
    }
    stage.end();
    mine_ = whole_;
    if (sharding_) whole_ = co_await sharding_->allgather(channel, mine_);

    outcome.input_error = whole_.input_error;
    outcome.selected_global = outcome.input_error ? 0 : whole_.update.count;
    outcome.rethresholded = contribution_ && contribution_->rethresholded();
    outcome.counters = counters_;
    outcome.counted = whole_.counted;
    co_return outcome;
  }
  /// Finishes the run after exchange(). `gradient_is_there`: the caller's gradient may be read. `result` may be nullptr.
  void apply(Verdict verdict, bool gradient_is_there, G* result) {
    // 3. what was delivered leaves the residual
    if (selected_ && verdict == Verdict::delivered)
      contribution_->settle(mine_.update, mine_.undelivered, mine_.undelivered_runs);
    else if (selected_)
      contribution_->roll_back(gradient_is_there);
    update_ = verdict == Verdict::delivered ? whole_.update : SparseVector<T>{};

    // 4. the dense result
    if (verdict == Verdict::refused) return;
    if (estimate_ && verdict == Verdict::delivered)
      estimate_.deliver(result, update_);
    else if (result != nullptr)
      arrays_.densify(result, count_, update_);
  }
  /// Returns the update of the last run, or an empty vector after forget_update().
  [[nodiscard]] SparseVector<T> update() const { return update_; }
  void forget_update() { update_ = {}; }

  /// Writes this rank's contribution as bytes. All selected entries count as delivered. Returns 0, and leaves the residual
  /// unchanged, if the gradient is not finite and must be. Must not be called if the algorithm shards.
  std::int64_t encode(encoded::Writer& writer, const G* gradient, std::int64_t k, std::int64_t iteration, std::byte* out,
                      StepOutcome& outcome) {
    if (!run_here(contribution_->select(gradient, k, draw(iteration)))) {
      contribution_->roll_back(true);
      outcome.input_error = ErrorReport(InputError::non_finite, static_cast<int>(rank_));
      return 0;
    }
    outcome.selected_local = contribution_->selection().count;
    outcome.rethresholded = contribution_->rethresholded();
    const std::int64_t bytes = writer.write_sparse(contribution_->travelling(), out);
    contribution_->settle(contribution_->selection());
    return bytes;
  }

  void reset() {
    update_ = {};
    if (algorithm_) algorithm_->reset();
    if (contribution_) contribution_->reset();
  }
  void scale(double factor) {
    if (algorithm_) algorithm_->scale(factor);
    if (contribution_) contribution_->scale(factor);
  }
  /// Takes over the residual and the feedback of `other`, which must be of the same elements.
  void take(SparseRun& other) {
    if (contribution_ && other.contribution_) contribution_->take(*other.contribution_);
  }
  void visit_algorithm(StateVisitor& visitor, const Region& mine) {
    if (algorithm_) {
      const StateVisitor::Scope scope(visitor, "exchange");
      const StateVisitor::Placed placed(visitor, {Share::agreed, mine});
      algorithm_->visit_state(visitor);
    }
    if (contribution_) {
      const StateVisitor::Scope scope(visitor, "selector");
      contribution_->visit_selector(visitor);
    }
  }
  void visit_residual(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    if (contribution_)
      contribution_->visit_residual(visitor, copy);
    else
      visitor.array("residual", static_cast<T*>(nullptr), 0, copy);
  }

  /// Return the range of elements of which this rank keeps a residual.
  [[nodiscard]] std::int64_t begin() const { return sharding_ ? sharding_->begin() : 0; }
  [[nodiscard]] std::int64_t size() const { return sharding_ ? sharding_->size() : count_; }
  [[nodiscard]] std::span<const T> residual() const { return contribution_ ? contribution_->residual() : std::span<const T>(); }
  /// Returns true if the ranks of a node sum their gradients first.
  [[nodiscard]] bool in_nodes() const { return sharding_.has_value(); }
  [[nodiscard]] Explanation explanation() const { return algorithm_ ? algorithm_->explanation() : Explanation{}; }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return (algorithm_ ? algorithm_->memory_bytes() : 0) + (contribution_ ? contribution_->memory_bytes() : 0) +
           (sharding_ ? sharding_->memory_bytes() : 0);
  }

 private:
  [[nodiscard]] Draw draw(std::int64_t iteration) const { return {seed_, static_cast<std::uint64_t>(iteration), rank_}; }

  Arrays& arrays_;
  Estimate<Arrays>& estimate_;
  std::uint64_t seed_;
  std::uint32_t rank_;
  std::int64_t count_;
  std::span<const CounterInfo> counters_;
  std::optional<Sharding<Arrays>> sharding_;
  std::unique_ptr<SparseAllreduce<T>> algorithm_;     // among the owners of a shard if the algorithm shards
  std::optional<Contribution<Arrays>> contribution_;  // of a shard if the algorithm shards
  SparseVector<T> update_;
  // Valid from exchange() to apply():
  bool selected_ = false;
  SparseOutcome<T> whole_, mine_;  // mine_: of the exchange to which this rank contributed
};

}  // namespace weir::detail
