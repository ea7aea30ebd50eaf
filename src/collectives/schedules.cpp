#include "collectives/schedules.hpp"

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "collectives/switch_groups.hpp"

namespace weir {

bool any_schedule(const AllreduceConfig& config) {
  const bool at_most_k = config.threshold == Threshold::exact || config.threshold == Threshold::mstopk;
  return at_most_k && config.wire_values == WireValues::native && config.memory == MemorySpace::host;
}

bool chooses_schedule(const AllreduceConfig& config) {
  if (config.schedule == ExchangeSchedule::automatic) return any_schedule(config);
  return config.schedule == ExchangeSchedule::phased;
}

void choose_schedule(const Machine& machine, const AllreduceProblem& whole, bool sharded, AllreduceProblem& exchange) {
  Problem problem = make_problem(*whole.topology, whole.count, whole.largest_k, whole.config.type);
  problem.format = whole.config.wire_format;
  problem.schedule = whole.config.schedule;
  problem.any_schedule = any_schedule(whole.config);
  problem.radix = whole.config.radix;
  const OkTopkExchange which = exchange.switches ? OkTopkExchange::switch_group
                               : sharded         ? OkTopkExchange::rings
                                                 : OkTopkExchange::whole;
  const ScheduleChoice choice = choose_schedule(machine, problem, which);
  exchange.schedule = choice.schedule;
  exchange.radix = choice.radix;
}

std::string schedule_text(const AllreduceProblem& exchange) {
  const bool phased = exchange.schedule == ExchangeSchedule::phased;
  return fmt::format("schedule: {}{}{}\n", name_of(exchange.schedule), phased ? fmt::format(" with radix {}", exchange.radix) : "",
                     exchange.switches ? "; among switch groups: direct" : "");
}

}  // namespace weir
