// dense_run.hpp: a run that sums whole gradients, in place.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "communicator/input_error.hpp"
#include "plan/step_outcome.hpp"

namespace weir::detail {

/// Lets ranks agree that all gradients are finite and in range before they travel whole.
template <class Arrays>
class Soundness {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `non_finite`: NaN and infinity may travel. Every magnitude must have a key below `first_wild`. `arrays` must outlive the
  /// object.
  Soundness(std::int64_t count, bool non_finite, Key<T> first_wild, Arrays& arrays)
      : count_(count), non_finite_(non_finite), first_wild_(first_wild), arrays_(arrays) {}

  /// Returns the error in this rank's gradient, or `input_error` if that is one.
  task<ErrorReport> check(Channel channel, const G* gradient, ErrorReport input_error) {
    if (input_error || non_finite_ || count_ == 0) co_return input_error;
    const StageScope stage = channel.stage(Stage::check_finite);
    if (first_wild_ < key_infinity<T>)
      arrays_.exceedances(gradient, count_, first_wild_);
    else
      arrays_.count_non_finite(gradient, count_);
    co_await arrays_.report();
    co_return arrays_.results().exceedances.count > 0 ? ErrorReport(InputError::non_finite, channel.rank()) : ErrorReport();
  }
  /// Returns the largest error of any rank.
  task<ErrorReport> agree(Channel channel, ErrorReport input_error) {
    const StageScope stage = channel.stage(Stage::agree);
    words_[0] = input_error.word();
    co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
    co_return ErrorReport::of_word(words_[0]);
  }

 private:
  std::int64_t count_;
  bool non_finite_;
  Key<T> first_wild_;
  Arrays& arrays_;
  std::uint64_t words_[2] = {};
};

template <class Arrays>
class DenseRun {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `non_finite`: NaN and infinity may travel. `arrays` must outlive the object.
  DenseRun(std::unique_ptr<DenseAllreduce<G>> algorithm, std::int64_t count, bool non_finite, Arrays& arrays)
      : algorithm_(std::move(algorithm)), count_(count), soundness_(count, non_finite, key_infinity<T>, arrays) {}

  /// Overwrites `data`, the gradient, with the update, unless the outcome has an error.
  task<StepOutcome> exchange(Channel channel, G* data, ErrorReport input_error) {
    if (!input_error && !algorithm_->usable()) input_error = ErrorReport(InputError::nccl_aborted, channel.rank());
    input_error = co_await soundness_.check(channel, data, input_error);
    const StageScope stage = channel.stage(Stage::exchange);
    StepOutcome outcome;
    outcome.k = count_;
    outcome.input_error = co_await soundness_.agree(channel, input_error);
    if (outcome.input_error) co_return outcome;
    co_await algorithm_->run(channel, data);
    outcome.selected_local = outcome.selected_global = count_;
    co_return outcome;
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return algorithm_->memory_bytes(); }

 private:
  std::unique_ptr<DenseAllreduce<G>> algorithm_;
  std::int64_t count_;
  Soundness<Arrays> soundness_;
};

}  // namespace weir::detail
