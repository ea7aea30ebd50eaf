#include "collectives/schedules.hpp"

#include "base/error.hpp"
#include "collectives/switch_groups.hpp"

namespace weir {

bool any_schedule(const AllreduceConfig& config) {
  const bool at_most_k = config.threshold == Threshold::exact || config.threshold == Threshold::mstopk;
  return at_most_k && config.wire_values == WireValues::native && config.memory == MemorySpace::host;
}

void choose_schedules(const Machine& machine, const AllreduceProblem& whole, bool sharded, AllreduceProblem& exchange) {
  Problem problem = make_problem(*whole.topology, whole.count, whole.largest_k, whole.config.type);
  problem.format = whole.config.wire_format;
  problem.values = whole.config.wire_values;
  problem.any_schedule = any_schedule(whole.config);
  problem.schedule = whole.config.schedule;
  problem.radix = whole.config.radix;
  if (exchange.switches) {
    exchange.schedule = choose_schedule(machine, problem, OkTopkExchange::switch_group);
    exchange.across = choose_schedule(machine, problem, OkTopkExchange::among_switches);
  } else {
    exchange.schedule = choose_schedule(machine, problem, sharded ? OkTopkExchange::rings : OkTopkExchange::whole);
  }
}

namespace {

std::string text_of(const ScheduleChoice& choice, std::int64_t largest_k) {
  const std::string phased = fmt::format("phased with radix {}", choice.radix);
  if (choice.one_round_to >= largest_k) return "one round";
  const std::string above = choice.phased_to >= largest_k ? phased
                            : choice.phased_to > choice.one_round_to
                                ? fmt::format("{} up to k {}, else direct", phased, choice.phased_to)
                                : "direct";
  if (choice.one_round_to < 1) return above;
  return fmt::format("one round up to k {}, else {}", choice.one_round_to, above);
}

}  // namespace

std::string schedule_text(const AllreduceProblem& exchange) {
  std::string text = fmt::format("schedule: {}", text_of(exchange.schedule, exchange.largest_k));
  if (exchange.switches) text += fmt::format("; among switch groups: {}", text_of(exchange.across, exchange.largest_k));
  return text + "\n";
}

}  // namespace weir
