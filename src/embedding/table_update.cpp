// Updates: gradients summed, sent to those who hold the rows, and applied; prior rows first.
#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "embedding/embedding_config.hpp"
#include "embedding/table.hpp"

namespace weir::detail {

using namespace embedding;

/// Who waits for all of an update must not wait behind what is less urgent than its caller.
void EmbeddingState::hurry_update() {
  if (update_.run.finished) return;
  hurried_ = true;
  comm_->engine.reprioritise(update_.run, config_.priority);
}

void EmbeddingState::finish_update() {
  hurry_update();
  update_.wait();
  update_.check_startable();
}

void EmbeddingState::start_update(std::span<const float> gradients, void* stream) {
  finish_update();
  const Clock::time_point begin = Clock::now();
  const std::int64_t expected = current_->tokens() * config_.width;
  Step step{CallFault::none, InputError::none, next_known_ ? next_.get() : nullptr, state_.learning_rate, begin, lookups_};
  if (!lookup_.run.finished || !current_ready_)
    step.input_error = CallFault::not_ready;
  else if (static_cast<std::int64_t>(gradients.size()) != expected)
    step.input_error = CallFault::wrong_size;
  else if (expected > 0 && gradients.data() == nullptr)
    step.input_error = CallFault::null_pointer;
  else if (expected > 0)
    step.memory = update_caller_->enter(gradients.data(), stream);
  if (step.memory != InputError::none) step.input_error = CallFault::wrong_memory;
  if (step.input_error == CallFault::none && expected > 0) step.input_error = coalesce(gradients.data());
  statistics_.seconds_coalesce = seconds_since(begin);
  update_.run.priority = config_.priority;
  hurried_ = false;
  update_.launch([&] { return run_update(step); });
}

/// Gradients of the batch's distinct rows. Fails where CUDA does.
EmbeddingState::CallFault EmbeddingState::coalesce(const float* gradients) {
  try {
    const CallerWork work(*update_caller_);
    space_->coalesce(gradients, config_.width, token_groups_, coalesced_);
    return CallFault::none;
  } catch (const Error& error) {
    return device_failed(error);
  }
}

task<void> EmbeddingState::run_update(Step step) {
  if (step.input_error == CallFault::none) {
    std::swap(current_, updating_);
    current_ready_ = false;
    split_ = prior_applied_ = updated_ = false;
    half_applied_ = true;  // perhaps, on other ranks: they may get further than this one
    foreseen_ = step.next;
  }
  const OpenAtEnd gates(std::array{&split_, &prior_applied_, &updated_});
  const Channel channel = update_.channel();
  const bool next_known = co_await agree_on_step(channel, step);
  const RowOptimizer optimizer(config_, step.learning_rate, config_.average ? channel.size() : 1, state_.steps + 1);
  statistics_.updated_rows = 0;

  if (dense_) {
    split_ = true;
    co_await dense_->run(channel, *updating_, coalesced_);
    statistics_.prior_rows = updating_->groups().count();
    statistics_.updated_rows = dense_->step(slice_, optimizer);
    statistics_.seconds_prior = statistics_.seconds_update = seconds_since(step.begin);
    ++state_.steps;
    half_applied_ = false;
    co_return;
  }

  // EmbRace Algorithm 1.
  StageScope stage = channel.stage(Stage::wait_for_prefetch);
  if (next_known) {
    co_await channel.opened(step.next->settled, prefetch_.run);
    check_gathering(*step.next);
  }
  updating_->split(next_known && step.next->gathered() ? step.next : nullptr, marks_.data());
  split_ = true;
  statistics_.prior_rows = updating_->prior(channel.rank());

  stage.next(Stage::prior_rows);
  co_await delivery_.run(channel, *updating_, true, coalesced_);
  statistics_.updated_rows += delivery_.step(slice_, optimizer);
  mark_delayed(true);
  prior_applied_ = true;
  statistics_.seconds_prior = statistics_.seconds_update = seconds_since(step.begin);
  ++state_.steps;
  half_applied_ = delayed_rows_of_all() > 0;
  if (!half_applied_) co_return;

  stage.next(Stage::delayed_rows);
  if (!hurried_) {
    channel.reprioritise(config_.delayed_priority);
    co_await channel.turn();  // else they would share the network with the vectors that prior rows were hurried for
  }
  co_await delivery_.run(channel, *updating_, false, coalesced_);
  statistics_.updated_rows += delivery_.step(slice_, optimizer);
  mark_delayed(false);
  half_applied_ = false;
  statistics_.seconds_update = seconds_since(step.begin);
}

/// Whether all ranks know their next batch by the same prefetch: they may have made another number of them so far.
task<bool> EmbeddingState::agree_on_step(Channel channel, const Step& step) {
  const StageScope stage = channel.stage(Stage::announce);
  const auto rate = std::bit_cast<std::uint64_t>(step.learning_rate);
  const auto lowest_rank = 0xffffffffu - static_cast<std::uint32_t>(channel.rank());
  const auto next = static_cast<std::uint64_t>(step.next != nullptr ? step.next->prefetch : 0);
  // Maxima: the input error and its rank, the rate and the prefetch, each with its complement for the minimum. And scratch.
  auto& words = step_words_;
  words[0] = 0;
  if (step.input_error != CallFault::none)
    words[0] = static_cast<std::uint64_t>(step.input_error) << 40 | static_cast<std::uint64_t>(step.memory) << 32 | lowest_rank;
  words[1] = rate;
  words[2] = ~rate;
  words[3] = next;
  words[4] = ~next;
  co_await allreduce_control(channel, words.data(), 5, 5, words.data() + 5);
  const auto input_error = static_cast<CallFault>(words[0] >> 40);
  const bool rates_differ = words[1] != ~words[2];
  if (input_error == CallFault::none && !rates_differ) co_return words[3] == ~words[4] && words[3] != 0;
  half_applied_ = false;
  // What has been looked up since cannot be updated again: that batch has taken its place.
  if (step.input_error == CallFault::none && step.lookups == lookups_) {
    std::swap(current_, updating_);
    current_ready_ = true;
  }
  const auto rank = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(words[0]));
  if (input_error == CallFault::not_ready)
    fail_alike(WEIR_ERR_ARGUMENT,
               "table '{}': rank {} updates without a finished lookup: each update needs one lookup before it, waited for",
               config_.name, rank);
  if (input_error == CallFault::device_failed) throw_device_failed(config_.name, rank);
  if (input_error == CallFault::wrong_memory)
    fail_alike(WEIR_ERR_ARGUMENT, "table '{}': {}", config_.name,
               memory_error_text(static_cast<InputError>(words[0] >> 32 & 0xff), rank, "table", "array of gradients"));
  if (input_error != CallFault::none)
    fail_alike(WEIR_ERR_ARGUMENT,
               "table '{}': rank {} gave gradients that are null, or not of the size of its last batch (ids x width)", config_.name,
               rank);
  fail_alike(WEIR_ERR_MISMATCH, "table '{}': ranks disagree about the learning rate; set the same on all", config_.name);
}

void EmbeddingState::set_learning_rate(double learning_rate) {
  require(is_learning_rate(learning_rate), "table '{}': the learning rate is {}: it must be finite as float32, at most 3.4e38",
          config_.name, learning_rate);
  state_.learning_rate = learning_rate == 0 ? 0 : learning_rate;  // -0.0 is the same, and ranks compare bits
}

void EmbeddingState::mark_delayed(bool pending) {
  for (int rank = 0; rank < comm_->topology.size(); ++rank) {
    for (const std::uint32_t row : updating_->part(rank, false)) {
      const std::uint64_t bit = std::uint64_t{1} << row % 64;
      if (pending)
        pending_[row / 64] |= bit;
      else
        pending_[row / 64] &= ~bit;
    }
  }
}

bool EmbeddingState::is_delayed(std::span<const std::uint32_t> positions) const {
  if (updated_) return false;
  return std::any_of(positions.begin(), positions.end(),
                     [&](std::uint32_t row) { return (pending_[row / 64] >> row % 64 & 1) != 0; });
}

std::int64_t EmbeddingState::delayed_rows_of_all() const {
  std::int64_t rows = 0;
  for (int rank = 0; rank < comm_->topology.size(); ++rank) rows += static_cast<std::int64_t>(updating_->part(rank, false).size());
  return rows;
}

}  // namespace weir::detail
