#include "collectives/schedules.hpp"

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "collectives/switch_groups.hpp"

namespace weir {

bool any_schedule(const AllreduceConfig& config) {
  const bool at_most_k = config.threshold == Threshold::exact || config.threshold == Threshold::mstopk;
  return at_most_k && config.wire_values == WireValues::native && config.memory == MemorySpace::host;
}

int choose_radix(const Machine& machine, const AllreduceProblem& whole, bool sharded, const AllreduceProblem& exchange) {
  Problem problem = make_problem(*whole.topology, whole.count, whole.largest_k, whole.config.type);
  problem.format = whole.config.wire_format;
  problem.radix = whole.config.radix;
  if (exchange.switches) return phased_radix(machine, problem, OkTopkExchange::switch_group);
  return phased_radix(machine, problem, sharded ? OkTopkExchange::rings : OkTopkExchange::whole);
}

std::string schedule_text(const AllreduceProblem& exchange) {
  const bool phased = exchange.schedule == ExchangeSchedule::phased;
  return fmt::format("schedule: {}{}{}\n", name_of(exchange.schedule), phased ? fmt::format(" with radix {}", exchange.radix) : "",
                     exchange.switches ? "; among switch groups: direct" : "");
}

}  // namespace weir
