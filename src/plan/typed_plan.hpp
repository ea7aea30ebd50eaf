// typed_plan.hpp: a plan for one element type: one pipeline, or, while automatic choice tries several, the one whose turn it is.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/control.hpp"
#include "plan/pipeline.hpp"
#include "plan/plan.hpp"

namespace weir::detail {

template <class T>
class TypedPlan final : public PlanState {
 public:
  /// Several `candidates`: the first has config.trial_iterations runs that only warm up, then they take turns of a few
  /// runs until each has had as many, so that what the machine does meanwhile hits all alike; then the fastest stays.
  TypedPlan(std::shared_ptr<CommunicatorState> communicator, const std::vector<AllreduceConfig>& candidates, Lease lease)
      : PlanState(std::move(communicator), candidates.front(), std::move(lease)),
        trials_(candidates.size()),
        times_(candidates.size() > 1 ? 2 * candidates.size() : 0) {
    for (const AllreduceConfig& candidate : candidates) pipelines_.push_back(std::make_unique<Pipeline<T>>(*this, candidate));
    current_ = pipelines_.front().get();
    if (trials_.size() == 1) return;
    gradient_ = Buffer<T>(config.count);
    for (Trial& trial : trials_) trial.nanoseconds.reserve(static_cast<std::size_t>(std::min(config.trial_iterations, most_kept)));
  }

  void reset() override {
    forget_runs();
    for (auto& pipeline : pipelines_) {
      if (pipeline) pipeline->reset();
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
    for (const auto& pipeline : pipelines_) bytes += pipeline ? pipeline->memory_bytes() : 0;
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
  /// While candidates take turns, any may be next.
  [[nodiscard]] bool in_place() const override {
    return std::any_of(pipelines_.begin(), pipelines_.end(), [](const auto& pipeline) { return pipeline && pipeline->in_place(); });
  }

 private:
  /// Who holds the residual: the last candidate until the next has taken it over.
  [[nodiscard]] const Pipeline<T>& holder() const { return leftover_ != nullptr ? *leftover_ : *current_; }

  struct Trial {
    std::int64_t runs = 0;
    std::vector<std::uint64_t> nanoseconds{};  ///< of those that count

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

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t fault) override {
    const Clock::time_point begin = Clock::now();
    if (!decided_) take_turns();
    if (leftover_ != nullptr && fault == 0) {
      co_await execute_with_leftover(static_cast<T*>(dense), static_cast<const T*>(sparse_only));
    } else {
      co_await current_->execute(static_cast<T*>(dense), static_cast<const T*>(sparse_only), fault);
    }
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    statistics.seconds_total = seconds.count();
    if (decided_) co_return;
    if (warm_runs_ < config.trial_iterations) {
      ++warm_runs_;
      co_return;
    }
    note_run(seconds.count());
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
    if (!best_) return hand_over_to((turn_ + 1) % pipelines_.size());
    hand_over_to(*best_);
    decided_ = true;
    for (auto& pipeline : pipelines_) {
      if (pipeline.get() != current_ && pipeline.get() != leftover_) pipeline.reset();
    }
  }

  /// The best is the one that was fastest on its slowest rank.
  task<void> compare() {
    for (std::size_t i = 0; i < trials_.size(); ++i) times_[i] = trials_[i].typical();
    const auto count = static_cast<std::int64_t>(trials_.size());
    const Channel channel(comm->engine, comm->topology, run, traffic);
    channel.step("compare the candidates");
    co_await allreduce_control(channel, times_.data(), count, count, times_.data() + count);
    if (comm->settings.log >= LogLevel::info) tell_times();
    best_ = static_cast<std::size_t>(std::min_element(times_.begin(), times_.begin() + count) - times_.begin());
  }

  void tell_times() const {
    std::string text;
    for (std::size_t i = 0; i < pipelines_.size(); ++i)
      text += fmt::format("{}{} {:.3f} ms", i == 0 ? "" : ", ", pipelines_[i]->config().algorithm,
                          static_cast<double>(times_[i]) * 1e-6);
    log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': trials decide: {}", comm->topology.rank(), config.name, text);
  }

  void hand_over_to(std::size_t turn) {
    if (turn == turn_) return;
    leftover_ = current_;
    use(turn);
  }

  void use(std::size_t turn) {
    turn_ = turn;
    current_ = pipelines_[turn].get();
    config.algorithm = current_->config().algorithm;
    config.wire_format = current_->config().wire_format;
    config.wire_values = current_->config().wire_values;
  }

  /// What the last candidate has kept goes into the first gradient of the next: nothing is lost.
  task<void> execute_with_leftover(T* dense, const T* sparse_only) {
    std::copy_n(dense != nullptr ? dense : sparse_only, config.count, gradient_.data());
    const std::span<const T> kept = leftover_->residual();
    kernels::host::add(kept.data(), gradient_.data() + leftover_->residual_begin(), static_cast<std::int64_t>(kept.size()));
    co_await current_->execute(dense != nullptr ? gradient_.data() : nullptr, gradient_.data(), 0);
    if (dense != nullptr && has_owner()) std::copy_n(gradient_.data(), config.count, dense);
    if (statistics.skipped) co_return;
    leftover_->reset();
    leftover_ = nullptr;
    if (!decided_) co_return;
    for (auto& pipeline : pipelines_) {
      if (pipeline.get() != current_) pipeline.reset();
    }
    gradient_ = {};
  }

  static constexpr std::int64_t most_kept = 4096;  // times of one candidate: more say no more

  std::vector<Trial> trials_;
  std::vector<std::uint64_t> times_;  // of all candidates, and scratch
  std::int64_t warm_runs_ = 0;        // before the first turn
  std::vector<std::unique_ptr<Pipeline<T>>> pipelines_;
  std::size_t turn_ = 0;
  std::optional<std::size_t> best_;  // once all have been tried
  bool decided_ = trials_.size() == 1;
  Pipeline<T>* current_ = nullptr;
  Pipeline<T>* leftover_ = nullptr;  // its residual has not been handed on yet
  Buffer<T> gradient_;               // with a residual handed on
};

}  // namespace weir::detail
