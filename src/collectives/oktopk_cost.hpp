// oktopk_cost.hpp: the costs of oktopk and hi_oktopk, and the cheapest of their schedules.
#pragma once

#include <vector>

#include "collectives/oktopk_parameters.hpp"
#include "model/cost.hpp"

namespace weir {

/// Returns the cost of Ok-Topk: balanced split-and-reduce, global threshold by histograms and few values, allgatherv of k entries.
Cost cost_oktopk(const Machine& machine, const Problem& problem);
/// Returns the cost of Ok-Topk across nodes. If there are switch groups, it runs in each group, then among the groups: as many
/// owners per group as the smallest group has nodes exchange their parts of the group's k / S entries, and give the result to their
/// group.
Cost cost_hi_oktopk(const Machine& machine, const Problem& problem);

/// The exchanges that have a schedule: that of oktopk among all ranks; that of hi_oktopk for a shard among nodes; or, if there are
/// switch groups, in each of them.
enum class OkTopkExchange { whole, rings, switch_group };
/// The schedule that is asked for.
struct ScheduleRequest {
  ExchangeSchedule schedule = ExchangeSchedule::automatic;
  int radix = 0;        ///< of the phased schedule; 0: the cheapest
  bool any = true;      ///< automatic choice may take any schedule; otherwise it takes direct
  bool shared = false;  ///< all ranks are on one node and share memory
};
/// A schedule, and the radix if it is phased.
struct ScheduleChoice {
  ExchangeSchedule schedule = ExchangeSchedule::direct;
  int radix = 2;

  friend bool operator==(const ScheduleChoice&, const ScheduleChoice&) = default;
};
struct CostedSchedule {
  ScheduleChoice choice;
  double seconds;  ///< of the exchange, without selecting before it and applying the result
};
/// Returns the schedules among which choose_schedule() chooses: only the one that is asked for, or those that can run within their
/// limits.
[[nodiscard]] std::vector<CostedSchedule> considered_schedules(const Machine& machine, const Problem& problem,
                                                               const ScheduleRequest& request, OkTopkExchange exchange);
/// Returns the schedule that is asked for, or the cheapest. one_round stays unless another saves a tenth of a run. The result is
/// the same on every processor: ranks need not agree on it.
[[nodiscard]] ScheduleChoice choose_schedule(const Machine& machine, const Problem& problem, const ScheduleRequest& request,
                                             OkTopkExchange exchange);

}  // namespace weir
