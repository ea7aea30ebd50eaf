// allreduce_oktopk.hpp: Ok-Topk by any of its schedules. All deliver the same bits, and each can go on from another's state.
#pragma once

#include <optional>

#include "collectives/oktopk_by_regions.hpp"
#include "collectives/oktopk_in_node.hpp"
#include "collectives/oktopk_one_round.hpp"
#include "collectives/oktopk_schedules.hpp"
#include "collectives/oktopk_state.hpp"

namespace weir {

template <class T, class Space>
class OkTopk final : public SparseAllreduce<T> {
 public:
  explicit OkTopk(const ExchangeSpec& spec) : OkTopk(spec, schedules_of(spec)) {}
  OkTopk(const ExchangeSpec& spec, const OkTopkSchedules& schedules)
      : schedules_(schedules.up_to), explanation_(schedules.explanation()), fresh_(spec.count, spec.ranks) {
    if (schedules_.empty()) schedules_.push_back({spec.largest_k, {}});
    ExchangeSpec in_one_round = spec;
    bool one_round = false, by_regions = false;
    for (const auto& [largest_k, choice] : schedules_) {
      if (choice.schedule == ExchangeSchedule::shared) {
        if constexpr (!Space::asynchronous) in_node_.emplace(spec);
        continue;
      }
      if (choice.schedule != ExchangeSchedule::one_round) {
        by_regions = true;
        continue;
      }
      one_round = true;
      in_one_round.largest_k = largest_k;
      in_one_round.largest_local = std::min(spec.largest_local, largest_k);
    }
    if (one_round) one_round_.emplace(in_one_round);
    if (by_regions) by_regions_.emplace(spec, schedules_);
  }

  [[nodiscard]] MemorySpace memory() const override { return Space::memory; }
  void reset() override { state_ = fresh_; }
  void scale(double factor) override { state_.global_key = scaled_key<T>(state_.global_key, factor); }
  void visit_state(StateVisitor& visitor) override { visitor.state(state_); }
  [[nodiscard]] Explanation explanation() const override { return explanation_; }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    return (one_round_ ? one_round_->memory_bytes() : 0) + (by_regions_ ? by_regions_->memory_bytes() : 0) +
           (in_node_ ? in_node_->memory_bytes() : 0);
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, ErrorReport input_error) override {
    const ExchangeSchedule schedule = schedule_of(k);
    if (schedule == ExchangeSchedule::shared) return in_node_->run(channel, state_, local, k, input_error);
    if (schedule == ExchangeSchedule::one_round) return one_round_->run(channel, state_, local, k, input_error);
    return by_regions_->run(channel, state_, local, k, input_error, schedule);
  }

 private:
  [[nodiscard]] ExchangeSchedule schedule_of(std::int64_t k) const {
    for (const ScheduleUpTo& row : schedules_) {
      if (k <= row.largest_k) return row.choice.schedule;
    }
    return schedules_.back().choice.schedule;
  }

  std::vector<ScheduleUpTo> schedules_;
  Explanation explanation_;
  const OkTopkState<T> fresh_;  // copying it allocates no memory
  OkTopkState<T> state_ = fresh_;
  std::optional<OkTopkOneRound<T>> one_round_;
  std::optional<OkTopkByRegions<T, Space>> by_regions_;
  std::optional<OkTopkInNode<T>> in_node_;
};

}  // namespace weir
