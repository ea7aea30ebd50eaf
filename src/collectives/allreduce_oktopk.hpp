// allreduce_oktopk.hpp: Ok-Topk by any of its schedules. All deliver the same bits, and remember the same.
#pragma once

#include <optional>

#include "collectives/oktopk_by_regions.hpp"
#include "collectives/oktopk_one_round.hpp"
#include "collectives/oktopk_state.hpp"

namespace weir {

template <class T, class Space>
class OkTopk final : public SparseAllreduce<T> {
 public:
  explicit OkTopk(const AllreduceProblem& problem) : fresh_(problem.count, problem.ranks) {
    if (problem.schedule == ExchangeSchedule::one_round)
      one_round_.emplace(problem);
    else
      by_regions_.emplace(problem);
  }

  void reset() override { state_ = fresh_; }
  void visit_state(StateVisitor& visitor) override { visitor.state(state_); }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    return one_round_ ? one_round_->memory_bytes() : by_regions_->memory_bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, std::uint64_t input_error) override {
    if (one_round_) return one_round_->run(channel, state_, local, k, input_error);
    return by_regions_->run(channel, state_, local, k, input_error);
  }

 private:
  const OkTopkState<T> fresh_;  // to copy it takes no memory
  OkTopkState<T> state_ = fresh_;
  std::optional<OkTopkOneRound<T>> one_round_;
  std::optional<OkTopkByRegions<T, Space>> by_regions_;
};

}  // namespace weir
