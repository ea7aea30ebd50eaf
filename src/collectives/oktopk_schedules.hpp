// oktopk_schedules.hpp: chooses the schedules of the exchanges of oktopk and hi_oktopk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/allreduce.hpp"
#include "collectives/oktopk_cost.hpp"

namespace weir {

/// The schedule of runs of at most `largest_k` entries.
struct ScheduleUpTo {
  std::int64_t largest_k = 0;
  ScheduleChoice choice{};
};

struct OkTopkSchedules {
  std::vector<ScheduleUpTo> up_to;  ///< ascending by k; empty: direct. All phased ones have the same radix
  std::string why;                  ///< the reason as text

  [[nodiscard]] Explanation explanation() const;
};

/// Returns the schedules that the spec asks for, or the cheapest for each k. The same on every rank.
[[nodiscard]] OkTopkSchedules schedules_of(const ExchangeSpec& spec, OkTopkExchange exchange);
/// Returns the schedules of the exchange that the spec describes as a whole.
[[nodiscard]] OkTopkSchedules schedules_of(const ExchangeSpec& spec);

/// Returns true if the ranks may share memory in place of messages, where they have it.
[[nodiscard]] bool may_share(const ExchangeSpec& spec);
/// Returns the bytes of memory that each rank needs if all ranks share it, as AllreduceRow has it.
[[nodiscard]] std::int64_t shared_bytes_of_oktopk(const ExchangeSpec& spec);

/// Returns true if schedules_of() asks the cost functions.
[[nodiscard]] bool asks_costs_of_schedules(const ExchangeSpec& spec);

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec);
/// Makes Ok-Topk for host memory with these schedules, regardless of what the spec asks for.
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec, const OkTopkSchedules& schedules);

}  // namespace weir
