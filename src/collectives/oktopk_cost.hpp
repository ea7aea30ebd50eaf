// oktopk_cost.hpp: what oktopk and hi_oktopk cost, and the cheapest of their schedules.
#pragma once

#include <vector>

#include "collectives/oktopk_parameters.hpp"
#include "model/cost.hpp"

namespace weir {

/// Ok-Topk: balanced split-and-reduce, global threshold by histograms, allgatherv of k entries.
Cost cost_oktopk(const Machine& machine, const Problem& problem);
/// The same with Ok-Topk across nodes; where there are switch groups, in each group, then among the groups: each of as many owners
/// as the smallest group has nodes exchanges its part of the group's k / S entries, and gives the result to its group.
Cost cost_hi_oktopk(const Machine& machine, const Problem& problem);

/// The exchanges that have a schedule: that of oktopk among all ranks, and of hi_oktopk that of a shard among nodes, or, where
/// there are switch groups, in each of them.
enum class OkTopkExchange { whole, rings, switch_group };
/// What is asked for.
struct ScheduleRequest {
  ExchangeSchedule schedule = ExchangeSchedule::automatic;
  int radix = 0;    ///< of the phased one; 0: the cheapest
  bool any = true;  ///< automatic choice is free: if not, it is direct
};
/// A schedule, and the radix of the phased one.
struct ScheduleChoice {
  ExchangeSchedule schedule = ExchangeSchedule::direct;
  int radix = 2;

  friend bool operator==(const ScheduleChoice&, const ScheduleChoice&) = default;
};
struct CostedSchedule {
  ScheduleChoice choice;
  double seconds;  ///< of the exchange, without selecting before it and applying what comes of it
};
/// Among which choose_schedule() chooses: what is asked for alone, or those that can run and are within their limits.
[[nodiscard]] std::vector<CostedSchedule> considered_schedules(const Machine& machine, const Problem& problem,
                                                               const ScheduleRequest& request, OkTopkExchange exchange);
/// What is asked for, or the cheapest; one_round unless another saves a tenth of a run. The same on every processor: ranks need not
/// agree on it.
[[nodiscard]] ScheduleChoice choose_schedule(const Machine& machine, const Problem& problem, const ScheduleRequest& request,
                                             OkTopkExchange exchange);

}  // namespace weir
