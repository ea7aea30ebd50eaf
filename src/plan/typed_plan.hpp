// typed_plan.hpp: a plan for one memory and element type. It has one step, or one for each candidate while automatic choice tries
// several; the candidate whose turn it is then runs.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/control.hpp"
#include "plan/plan.hpp"
#include "plan/step.hpp"
#include "plan/trials.hpp"

namespace weir::detail {

template <class Arrays>
class TypedPlan final : public PlanImpl {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// Several `candidates` are tried in turn. In CUDA memory all of them must keep a residual of the same elements. `nccl` and
  /// `in_nodes` are as for Step.
  TypedPlan(std::shared_ptr<CommunicatorState> communicator, const std::vector<AllreduceConfig>& candidates, Lease lease,
            NcclGroups* nccl, bool in_nodes)
      : PlanImpl(std::move(communicator), candidates, std::move(lease)),
        trials_(candidates.size(), config.trial_iterations),
        times_(candidates.size() > 1 ? 2 * candidates.size() : 0) {
    for (const AllreduceConfig& candidate : candidates) {
      ExchangeSpec whole = spec_of(candidate);
      stream_.describe(whole);
      steps_.push_back(std::make_unique<Step<Arrays>>(*comm, channel(), candidate, whole, nccl, in_nodes));
      const Explanation text = steps_.back()->explanation();
      const std::string whose = candidates.size() > 1 ? candidate.algorithm + ": " : std::string();
      if (!text.how.empty()) explanation += fmt::format("{}{}\n  {}\n", whose, text.how, text.why);
      candidates_ += (candidates_.empty() ? "" : ", ") + candidate.algorithm;
      if (!candidate.compressor.empty()) candidates_ += " of " + candidate.compressor;
    }
    use(0);
    const bool all_keep_the_same =
        std::all_of(steps_.begin(), steps_.end(), [&](const auto& step) { return step->keeps_the_same(*current_); });
    if (all_keep_the_same) return;
    if (!may_keep_other_elements)
      fail(WEIR_ERR_INTERNAL, "candidates in CUDA memory keep residuals of different elements: {}", candidates_);
    gradient_ = typename Arrays::template Array<T>(config.count);
  }

  ~TypedPlan() override { stream_.drain(); }

  void reset() override {
    forget_runs();
    for (auto& step : steps_) {
      if (step) step->reset();
    }
    trials_.reset();
    go_on();
  }

  void scale(double factor) override {
    for (auto& step : steps_) {
      if (step) step->scale(factor);
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    std::int64_t bytes = gradient_.bytes();
    for (const auto& step : steps_) bytes += step ? step->memory_bytes() : 0;
    return bytes;
  }
  [[nodiscard]] std::int64_t residual_begin() const override { return holder().residual_begin(); }
  [[nodiscard]] AnyVector update() const override {
    const SparseVector<T> update = current_->update();
    return {update.indices, update.values, update.count};
  }
  [[nodiscard]] AnyVector residual() const override {
    const std::span<const T> residual = holder().residual();
    return {nullptr, residual.data(), static_cast<std::int64_t>(residual.size())};
  }

 protected:
  [[nodiscard]] InputError memory_error(const void* gradient, void* stream) override { return stream_.error_of(gradient, stream); }
  /// Asks all candidates, since any of them may be next while they take turns.
  [[nodiscard]] bool in_place() const override {
    return std::any_of(steps_.begin(), steps_.end(), [&](const auto& step) { return step && step->in_place(common_runs()); });
  }

  std::int64_t prepare_encoding() override {
    if (!trials_.decided() || trials_.leftover())
      fail(WEIR_ERR_STATE, "plan '{}' cannot encode: candidates still take turns (trial_iterations); name an algorithm",
           config.name);
    return current_->prepare_encoding();
  }
  std::int64_t encode_run(const float* gradient, std::byte* out) override {
    StepOutcome outcome;
    const std::int64_t bytes = current_->encode(gradient, delivered_runs(), out, outcome);
    conclude(outcome);
    return outcome.input_error ? current_->encode_zeros(out) : bytes;
  }

 private:
  [[nodiscard]] double seconds_in(Stage stage) const { return run.seconds[static_cast<std::size_t>(stage)]; }
  /// Returns the step that holds the residual: the last candidate until the next has taken it over.
  [[nodiscard]] const Step<Arrays>& holder() const { return *steps_[trials_.leftover().value_or(trials_.turn())]; }

  task<void> execute(void* dense, const void* sparse_only, ErrorReport input_error) override {
    StageScope stage = channel().stage(Stage::communicate);
    if (!trials_.decided()) take_turns();
    StepInput<G> input{static_cast<G*>(dense), static_cast<const G*>(sparse_only), input_error, common_runs(), caller_waits()};
    std::optional<typename Arrays::Stream::Work> work;  // makes later work on the caller's stream wait for that of this run
    if (!input_error) work.emplace(stream_);
    const bool hands_over = trials_.leftover() && !input_error;
    if (hands_over) add_leftover(input);
    const StepOutcome outcome = co_await current_->exchange(channel(), input);
    stage.end();
    const Verdict verdict = verdict_of(outcome.input_error);
    if (!trials_.decided() && verdict != Verdict::refused && trials_.count_run(seconds_in(Stage::communicate))) co_await compare();
    co_await apply(outcome, verdict, input.dense);
    if (hands_over) end_hand_over(static_cast<G*>(dense));
    if (!trials_.decided()) trials_.note_apply(seconds_in(Stage::apply));
  }

  /// Ends the run. If the run is refused, throws within the stage in which it fails. Sends no messages: a sparse run waits for the
  /// caller here, and other ranks would wait with it.
  task<void> apply(const StepOutcome& outcome, Verdict verdict, G* dense) {
    if (!outcome.sparse) {
      current_->apply(outcome, verdict, has_owner(), dense);
      std::optional<StageScope> failing;
      if (verdict == Verdict::refused) failing.emplace(comm->engine, run, Stage::exchange);
      conclude(outcome);
      co_return;
    }
    if (outcome.input_error || dense != nullptr) {
      const StageScope stage = channel().stage(Stage::wait_for_caller);
      co_await channel().caller();
    }
    const StageScope stage = channel().stage(Stage::apply);
    current_->apply(outcome, verdict, has_owner(), dense);
    conclude(outcome);
  }

  /// Sends no messages, since the gradient is read before anything is waited for.
  void take_turns() {
    if (trials_.take_turns()) {
      Step<Arrays>& last = *current_;
      use(trials_.turn());
      if (current_->keeps_the_same(last)) {
        current_->take_residual(last);
        trials_.handed_on();
      }
    }
    if (trials_.decided()) drop_steps();
  }

  /// Chooses the candidate that was fastest on its slowest rank.
  task<void> compare() {
    trials_.typical_nanoseconds(times_);
    const auto count = static_cast<std::int64_t>(steps_.size());
    const Channel channel(comm->engine, comm->topology, run, traffic);
    const StageScope stage = channel.stage(Stage::compare_candidates);
    co_await allreduce_control(channel, times_.data(), count, count, times_.data() + count);
    if (comm->settings.log >= LogLevel::info) log_times();
    trials_.choose(static_cast<std::size_t>(std::min_element(times_.begin(), times_.begin() + count) - times_.begin()));
  }

  void log_times() const {
    std::string text;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      text +=
          fmt::format("{}{} {:.3f} ms", i == 0 ? "" : ", ", steps_[i]->config().algorithm, static_cast<double>(times_[i]) * 1e-6);
    log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': trials decide: {}", comm->topology.rank(), config.name, text);
  }

  void use(std::size_t turn) {
    current_ = steps_[turn].get();
    config.algorithm = current_->config().algorithm;
    run.algorithm = find_allreduce(config.algorithm).name;
    config.algorithm_parameters = current_->config().algorithm_parameters;
    config.wire_format = current_->config().wire_format;
    config.wire_values = current_->config().wire_values;
    config.compressor = current_->config().compressor;
    config.compressor_parameters = current_->config().compressor_parameters;
    config.error_feedback = current_->config().error_feedback;
    config.threshold = current_->config().threshold;
    config.threshold_parameters = current_->config().threshold_parameters;
  }

  /// Drops unneeded steps once trials have decided. The chosen step stays; so does the previous one until its residual is handed
  /// on.
  void drop_steps() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!trials_.needs(i)) steps_[i].reset();
    }
    if (!trials_.leftover()) gradient_ = {};
  }

  static constexpr bool may_keep_other_elements = std::is_same_v<Arrays, HostArrays<T>>;

  /// Adds the last candidate's residual to the next one's first gradient, so that nothing is lost.
  void add_leftover(StepInput<G>& input) {
    if constexpr (may_keep_other_elements) {
      const Step<Arrays>& last = *steps_[*trials_.leftover()];
      std::copy_n(input.gradient(), config.count, gradient_.data());
      const std::span<const T> kept = last.residual();
      kernels::host::add(kept.data(), gradient_.data() + last.residual_begin(), static_cast<std::int64_t>(kept.size()));
      input.sparse_only = gradient_.data();
      if (input.dense != nullptr) input.dense = gradient_.data();
    }
  }

  void end_hand_over(G* result) {
    if constexpr (may_keep_other_elements) {
      if (result != nullptr && has_owner()) std::copy_n(gradient_.data(), config.count, result);
      if (statistics.skipped) return;
      steps_[*trials_.leftover()]->reset();
      trials_.handed_on();
      if (trials_.decided()) drop_steps();
    }
  }

  void visit_steps(StateVisitor& visitor) override {
    Trials trials = trials_;
    if (steps_.size() > 1) visit_trials(visitor, trials);
    const auto visit_step = [&](std::string_view name, std::size_t candidate) {
      const StateVisitor::Scope scope(visitor, name);
      steps_[candidate]->visit_state(visitor);
    };
    visit_step("step", trials.turn());
    if (trials.leftover()) visit_step("leftover", *trials.leftover());
    if (!visitor.restores()) return;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i] && i != trials.turn() && i != trials.leftover()) steps_[i]->reset();
    }
    trials_ = std::move(trials);
    go_on();
  }

  void visit_trials(StateVisitor& visitor, Trials& trials) {
    const StateVisitor::Scope scope(visitor, "trials");
    const StateVisitor::Placed placed(visitor, {Share::layout});
    visitor.text("candidates", candidates_, Share::layout);
    trials.visit(visitor);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (trials.needs(i) && steps_[i] == nullptr)
        visitor.refuse("decided", "trials have ended here, and candidates are gone: make a new plan to restore this state to");
    }
    if (trials.leftover() && steps_[trials.turn()]->keeps_the_same(*steps_[*trials.leftover()]))
      visitor.refuse("leftover", "it must be -1: candidates that keep the same leave nothing over");
  }

  void go_on() {
    use(trials_.turn());
    if (trials_.decided()) drop_steps();
  }

  typename Arrays::Stream stream_;
  Trials trials_;
  std::vector<std::uint64_t> times_;  // of all candidates, followed by scratch
  std::vector<std::unique_ptr<Step<Arrays>>> steps_;
  std::string candidates_;  // their names
  Step<Arrays>* current_ = nullptr;
  typename Arrays::template Array<T> gradient_;  // with the residual that is handed on
};

}  // namespace weir::detail
