// Updates: gradients are summed, sent to the ranks that hold the rows, and applied; prior rows first.
#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/error_report.hpp"
#include "collectives/control.hpp"
#include "embedding/table.hpp"

namespace weir::detail {

using namespace embedding;

namespace {

// The detail of a report is the kind of wrong memory and, below it, the elements given.
constexpr int given_bits = 34;
static_assert(static_cast<std::uint64_t>(InputError::last) < std::uint64_t{1} << (ErrorReport::detail_bits - given_bits));
constexpr std::uint64_t most_given = (std::uint64_t{1} << given_bits) - 1;

ErrorReport report_of(const CallCard& card, int rank) {
  const auto given = std::min(static_cast<std::uint64_t>(card.place), most_given);
  return {card.input_error, rank, static_cast<std::uint64_t>(card.memory) << given_bits | given};
}

}  // namespace

/// Gives the update in flight its caller's priority, because a caller waits for all of it.
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
  Step step{{}, next_known_ ? next_.get() : nullptr, state_.learning_rate, lookups_};
  CallCard& card = step.card;
  card.place = static_cast<std::int64_t>(gradients.size());
  if (!lookup_.run.finished || !current_ready_)
    card.input_error = CallError::not_ready;
  else
    card.check_array(gradients.data(), gradients.size(), expected);
  if (card.input_error == CallError::none && expected > 0) card.check_memory(update_caller_->enter(gradients.data(), stream));
  if (card.input_error == CallError::none && expected > 0) card.input_error = coalesce(gradients.data());
  statistics_.seconds_coalesce = seconds_since(begin);
  update_.run.priority = config_.priority;
  hurried_ = false;
  update_.launch([&] { return run_update(step); });
  if (card.input_error == CallError::none || card.input_error == CallError::device_failed) return;
  // Callers need not wait for an update, so a wrong call throws at once. The other ranks get the error by the run.
  update_.set_error_reported();
  throw_update_error(report_of(card, comm_->topology.rank()));
}

/// Sums the gradients of the batch's distinct rows. Returns an error if CUDA fails.
CallError EmbeddingState::coalesce(const float* gradients) {
  try {
    const CallerWork work(*update_caller_);
    space_->coalesce(gradients, config_.width, token_groups_, coalesced_);
    return CallError::none;
  } catch (const Error& error) {
    return device_failed(error);
  }
}

task<void> EmbeddingState::run_update(Step step) {
  if (step.card.input_error == CallError::none) {
    std::swap(current_, updating_);
    current_ready_ = false;
    split_ = prior_applied_ = updated_ = false;
    half_applied_ = true;  // possibly, because other ranks may get further than this one
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
    statistics_.seconds_prior = statistics_.seconds_update = statistics_.seconds_coalesce + seconds_since(update_.run.begun);
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
  statistics_.prior_rows = static_cast<std::int64_t>(updating_->rows(channel.rank(), Rows::prior).size());

  stage.next(Stage::prior_rows);
  co_await delivery_.run(channel, *updating_, Rows::prior, coalesced_);
  statistics_.updated_rows += delivery_.step(slice_, optimizer);
  mark_delayed(true);
  prior_applied_ = true;
  statistics_.seconds_prior = statistics_.seconds_update = statistics_.seconds_coalesce + seconds_since(update_.run.begun);
  ++state_.steps;
  half_applied_ = delayed_rows_of_all() > 0;
  if (!half_applied_) co_return;

  stage.next(Stage::delayed_rows);
  if (!hurried_) {
    channel.reprioritise(config_.delayed_priority);
    co_await channel.turn();  // otherwise they would share the network with the vectors that need the prior rows
  }
  co_await delivery_.run(channel, *updating_, Rows::delayed, coalesced_);
  statistics_.updated_rows += delivery_.step(slice_, optimizer);
  mark_delayed(false);
  half_applied_ = false;
  statistics_.seconds_update = statistics_.seconds_coalesce + seconds_since(update_.run.begun);
}

/// Returns whether the same prefetch gathered the next batch on all ranks: their numbers of prefetches so far may differ.
task<bool> EmbeddingState::agree_on_step(Channel channel, const Step& step) {
  const StageScope stage = channel.stage(Stage::announce);
  const auto rate = std::bit_cast<std::uint64_t>(step.learning_rate);
  const auto next = static_cast<std::uint64_t>(step.next != nullptr ? step.next->prefetch : 0);
  // Maxima of the input error, the rate and the prefetch; complements of the latter two for their minima. The rest is scratch.
  auto& words = step_words_;
  words[0] = report_of(step.card, channel.rank()).word();
  words[1] = rate;
  words[2] = ~rate;
  words[3] = next;
  words[4] = ~next;
  co_await allreduce_control(channel, words.data(), 5, 5, words.data() + 5);
  const ErrorReport report = ErrorReport::of_word(words[0]);
  const bool rates_differ = words[1] != ~words[2];
  if (!report && !rates_differ) co_return words[3] == ~words[4] && words[3] != 0;
  half_applied_ = false;
  // If there was another lookup since, its batch is the current one, and this one cannot be updated again.
  if (step.card.input_error == CallError::none && step.lookups == lookups_) {
    std::swap(current_, updating_);
    current_ready_ = true;
  }
  if (report) throw_update_error(report);
  fail_alike(WEIR_ERR_MISMATCH, "table '{}': ranks disagree about the learning rate; set the same on all", config_.name);
}

void EmbeddingState::throw_update_error(ErrorReport report) const {
  const auto input_error = report.kind<CallError>();
  const int rank = report.rank();
  const std::uint64_t given = report.detail() & most_given;
  if (input_error == CallError::not_ready)
    fail_alike(WEIR_ERR_ARGUMENT,
               "table '{}': rank {} updates without a finished lookup: each update needs one lookup before it, waited for",
               config_.name, rank);
  if (input_error == CallError::device_failed) throw_device_failed(config_.name, rank);
  if (input_error == CallError::wrong_memory)
    fail_alike(WEIR_ERR_ARGUMENT, "table '{}': {}", config_.name,
               memory_error_text(static_cast<InputError>(report.detail() >> given_bits), rank, "table", "array of gradients"));
  if (input_error == CallError::null_pointer)
    fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} gave gradients at a null pointer: give {} elements{}", config_.name, rank,
               given, refused_by_binding);
  fail_alike(WEIR_ERR_ARGUMENT,
             "table '{}': rank {} gave gradients of {}{} elements: they must be as many as the ids of its last lookup x width {}",
             config_.name, rank, given == most_given ? "at least " : "", given, config_.width);
}

void EmbeddingState::set_learning_rate(double learning_rate) {
  require(is_learning_rate(learning_rate), "table '{}': the learning rate is {}: it must be finite as float32, at most 3.4e38",
          config_.name, learning_rate);
  state_.learning_rate = learning_rate == 0 ? 0 : learning_rate;  // turns -0.0 into 0.0, because ranks compare bits
}

void EmbeddingState::mark_delayed(bool pending) {
  for (int rank = 0; rank < comm_->topology.size(); ++rank) {
    for (const std::uint32_t row : updating_->rows(rank, Rows::delayed)) {
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
  for (int rank = 0; rank < comm_->topology.size(); ++rank)
    rows += static_cast<std::int64_t>(updating_->rows(rank, Rows::delayed).size());
  return rows;
}

}  // namespace weir::detail
