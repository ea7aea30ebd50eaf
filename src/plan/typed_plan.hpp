// typed_plan.hpp: a plan for one memory and element type: one step, or, while automatic choice tries several, the one whose turn it
// is.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "collectives/control.hpp"
#include "plan/plan.hpp"
#include "plan/step.hpp"

namespace weir::detail {

template <class Memory>
class TypedPlan final : public PlanImpl {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  /// Several `candidates`: the first has config.trial_iterations runs that only warm up, then they take turns of a few
  /// runs until each has had as many, so that what the machine does meanwhile hits all alike; then the fastest stays.
  /// Only in host memory there are several. `nccl` and `in_nodes` as for steps.
  TypedPlan(std::shared_ptr<CommunicatorState> communicator, const std::vector<AllreduceConfig>& candidates, Lease lease,
            NcclGroups* nccl, bool in_nodes)
      : PlanImpl(std::move(communicator), candidates.front(), std::move(lease)),
        trials_(candidates.size()),
        times_(candidates.size() > 1 ? 2 * candidates.size() : 0) {
    for (const AllreduceConfig& candidate : candidates) {
      AllreduceProblem whole = problem_of(candidate);
      stream_.describe(whole);
      steps_.push_back(std::make_unique<Step<Memory>>(*this, candidate, whole, nccl, in_nodes));
    }
    current_ = steps_.front().get();
    if (trials_.size() == 1) return;
    gradient_ = typename Memory::template Array<T>(config.count);
    for (Trial& trial : trials_) trial.nanoseconds.reserve(static_cast<std::size_t>(std::min(config.trial_iterations, most_kept)));
  }

  ~TypedPlan() override { stream_.drain(); }

  void reset() override {
    forget_runs();
    for (auto& step : steps_) {
      if (step) step->reset();
    }
    leftover_ = nullptr;
    if (decided_) return;
    warm_runs_ = 0;
    for (Trial& trial : trials_) trial.forget();
    best_.reset();
    use(0);
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
  /// While candidates take turns, any may be next.
  [[nodiscard]] bool in_place() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step && step->in_place(); });
  }

 private:
  [[nodiscard]] double seconds_in(Stage stage) const { return run.seconds[static_cast<std::size_t>(stage)]; }
  /// Who holds the residual: the last candidate until the next has taken it over.
  [[nodiscard]] const Step<Memory>& holder() const { return leftover_ != nullptr ? *leftover_ : *current_; }

  struct Trial {
    std::int64_t runs = 0;
    std::vector<std::uint64_t> nanoseconds{};  ///< of those that count
    double seconds_apply = 0;                  ///< in the last one

    void forget() {
      runs = 0;
      nanoseconds.clear();
    }
    /// The median: one run that waited for something else says nothing about the candidate.
    std::uint64_t typical() {
      if (nanoseconds.empty()) return 0;
      const auto middle = nanoseconds.begin() + static_cast<std::ptrdiff_t>(nanoseconds.size() - 1) / 2;
      std::nth_element(nanoseconds.begin(), middle, nanoseconds.end());
      return *middle;
    }
  };

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t input_error) override {
    StageScope stage = channel().stage(Stage::communicate);
    if (!decided_) take_turns();
    auto* const result = static_cast<G*>(dense);
    const auto* const gradient = dense != nullptr ? result : static_cast<const G*>(sparse_only);
    std::optional<typename Memory::Stream::Work> work;  // later work on the caller's stream comes after that of this run
    if (input_error == 0) work.emplace(stream_);
    const bool hands_over = leftover_ != nullptr && input_error == 0;
    if (hands_over)
      co_await exchange_with_leftover(gradient, dense != nullptr);
    else
      co_await current_->exchange(result, gradient, input_error);
    stage.end();
    if (!decided_ && accepts(current_->input_error())) co_await count_run(seconds_in(Stage::communicate));
    co_await current_->apply();
    if (hands_over) end_hand_over(result);
    if (!decided_) trials_[turn_].seconds_apply = seconds_in(Stage::apply);
  }

  /// A run of the trials, before its update is applied, which takes as long as the candidate's last time.
  task<void> count_run(double seconds) {
    if (warm_runs_ < config.trial_iterations) {
      ++warm_runs_;
      co_return;
    }
    note_run(seconds + trials_[turn_].seconds_apply);
    const bool all_tried =
        std::all_of(trials_.begin(), trials_.end(), [&](const Trial& trial) { return trial.runs >= config.trial_iterations; });
    if (all_tried && !best_) co_await compare();
  }

  void note_run(double seconds) {
    // In the first half thresholds get warm, and the first run of a turn takes over what the last candidate has kept.
    Trial& trial = trials_[turn_];
    const std::int64_t round = trial.runs / turn_length(), place = trial.runs % turn_length(),
                       rounds = config.trial_iterations / turn_length();
    ++trial.runs;
    if (round >= rounds / 2 && (place > 0 || turn_length() == 1) && trial.nanoseconds.size() < trial.nanoseconds.capacity())
      trial.nanoseconds.push_back(static_cast<std::uint64_t>(seconds * 1e9));
  }

  [[nodiscard]] std::int64_t turn_length() const { return config.trial_iterations < 8 ? config.trial_iterations : 4; }

  /// Every candidate in turn, then the best for good. No messages: the gradient is read before anything is waited for.
  void take_turns() {
    const std::int64_t runs = trials_[turn_].runs;
    if (leftover_ != nullptr) return;  // not handed on yet: the last run was skipped
    if (runs == 0 || (runs % turn_length() != 0 && runs < config.trial_iterations)) return;
    if (!best_) return hand_over_to((turn_ + 1) % steps_.size());
    hand_over_to(*best_);
    decided_ = true;
    for (auto& step : steps_) {
      if (step.get() != current_ && step.get() != leftover_) step.reset();
    }
  }

  /// The best is the one that was fastest on its slowest rank.
  task<void> compare() {
    for (std::size_t i = 0; i < trials_.size(); ++i) times_[i] = trials_[i].typical();
    const auto count = static_cast<std::int64_t>(trials_.size());
    const Channel channel(comm->engine, comm->topology, run, traffic);
    const StageScope stage = channel.stage(Stage::compare_candidates);
    co_await allreduce_control(channel, times_.data(), count, count, times_.data() + count);
    if (comm->settings.log >= LogLevel::info) tell_times();
    best_ = static_cast<std::size_t>(std::min_element(times_.begin(), times_.begin() + count) - times_.begin());
  }

  void tell_times() const {
    std::string text;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      text +=
          fmt::format("{}{} {:.3f} ms", i == 0 ? "" : ", ", steps_[i]->config().algorithm, static_cast<double>(times_[i]) * 1e-6);
    log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': trials decide: {}", comm->topology.rank(), config.name, text);
  }

  void hand_over_to(std::size_t turn) {
    if (turn == turn_) return;
    leftover_ = current_;
    use(turn);
  }

  void use(std::size_t turn) {
    turn_ = turn;
    current_ = steps_[turn].get();
    config.algorithm = current_->config().algorithm;
    config.wire_format = current_->config().wire_format;
    config.wire_values = current_->config().wire_values;
  }

  static constexpr bool has_trials = std::is_same_v<Memory, HostMemory<T>>;

  /// What the last candidate has kept goes into the first gradient of the next: nothing is lost.
  task<void> exchange_with_leftover(const G* gradient, bool in_place) {
    if constexpr (has_trials) {
      std::copy_n(gradient, config.count, gradient_.data());
      const std::span<const T> kept = leftover_->residual();
      kernels::host::add(kept.data(), gradient_.data() + leftover_->residual_begin(), static_cast<std::int64_t>(kept.size()));
      co_await current_->exchange(in_place ? gradient_.data() : nullptr, gradient_.data(), 0);
    }
  }

  void end_hand_over(G* result) {
    if constexpr (has_trials) {
      if (result != nullptr && has_owner()) std::copy_n(gradient_.data(), config.count, result);
      if (statistics.skipped) return;
      leftover_->reset();
      leftover_ = nullptr;
      if (!decided_) return;
      for (auto& step : steps_) {
        if (step.get() != current_) step.reset();
      }
      gradient_ = {};
    }
  }

  static constexpr std::int64_t most_kept = 4096;  // times of one candidate: more say no more

  typename Memory::Stream stream_;
  std::vector<Trial> trials_;
  std::vector<std::uint64_t> times_;  // of all candidates, and scratch
  std::int64_t warm_runs_ = 0;        // before the first turn
  std::vector<std::unique_ptr<Step<Memory>>> steps_;
  std::size_t turn_ = 0;
  std::optional<std::size_t> best_;  // once all have been tried
  bool decided_ = trials_.size() == 1;
  Step<Memory>* current_ = nullptr;
  Step<Memory>* leftover_ = nullptr;             // its residual has not been handed on yet
  typename Memory::template Array<T> gradient_;  // with a residual handed on
};

}  // namespace weir::detail
