// dense_run.hpp: a run that sums whole gradients, in place.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "communicator/input_error.hpp"
#include "plan/step_outcome.hpp"

namespace weir::detail {

/// What comes before gradients travel whole: ranks agree that all of them are sound.
template <class Memory>
class Soundness {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  /// `non_finite`: NaN and infinity may travel. No magnitude may have the key `first_wild` or a larger one. `memory` outlives it.
  Soundness(std::int64_t count, bool non_finite, Key<T> first_wild, Memory& memory)
      : count_(count), non_finite_(non_finite), first_wild_(first_wild), memory_(memory) {}

  /// Returns what is wrong with this rank's gradient; `input_error`, if that is not 0.
  task<std::uint64_t> check(Channel channel, const G* gradient, std::uint64_t input_error) {
    if (input_error != 0 || non_finite_ || count_ == 0) co_return input_error;
    const StageScope stage = channel.stage(Stage::check_finite);
    if (first_wild_ < key_infinity<T>)
      memory_.exceedances(gradient, count_, first_wild_);
    else
      memory_.count_non_finite(gradient, count_);
    co_await memory_.report();
    co_return memory_.told().exceedances.count > 0 ? input_error_word(InputError::non_finite, channel.rank()) : 0;
  }
  /// Returns the largest error of any rank.
  task<std::uint64_t> agree(Channel channel, std::uint64_t input_error) {
    const StageScope stage = channel.stage(Stage::agree);
    words_[0] = input_error;
    co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
    co_return words_[0];
  }

 private:
  std::int64_t count_;
  bool non_finite_;
  Key<T> first_wild_;
  Memory& memory_;
  std::uint64_t words_[2] = {};
};

template <class Memory>
class DenseRun {
 public:
  using G = typename Memory::Gradient;
  using T = typename Memory::Value;

  /// `non_finite`: NaN and infinity may travel. `memory` outlives it.
  DenseRun(std::unique_ptr<DenseAllreduce<G>> algorithm, std::int64_t count, bool non_finite, Memory& memory)
      : algorithm_(std::move(algorithm)), count_(count), soundness_(count, non_finite, key_infinity<T>, memory) {}

  /// `data`, the gradient, becomes the update, unless the outcome has an error.
  task<StepOutcome> exchange(Channel channel, G* data, std::uint64_t input_error) {
    if (input_error == 0 && !algorithm_->usable()) input_error = input_error_word(InputError::nccl_aborted, channel.rank());
    input_error = co_await soundness_.check(channel, data, input_error);
    const StageScope stage = channel.stage(Stage::exchange);
    StepOutcome outcome;
    outcome.k = count_;
    outcome.input_error = co_await soundness_.agree(channel, input_error);
    if (outcome.input_error != 0) co_return outcome;
    co_await algorithm_->run(channel, data);
    outcome.selected_local = outcome.selected_global = count_;
    co_return outcome;
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return algorithm_->memory_bytes(); }

 private:
  std::unique_ptr<DenseAllreduce<G>> algorithm_;
  std::int64_t count_;
  Soundness<Memory> soundness_;
};

}  // namespace weir::detail
