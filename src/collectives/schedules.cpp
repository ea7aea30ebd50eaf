#include "collectives/schedules.hpp"

#include <algorithm>

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

Problem cost_problem(const Topology& topology, const AllreduceConfig& config, std::int64_t k) {
  Problem problem = make_problem(topology, config.count, k, config.type);
  problem.format = config.wire_format;
  problem.schedule = config.schedule;
  problem.any_schedule = any_schedule(config);
  problem.radix = config.radix;
  return problem;
}

namespace {

OkTopkExchange exchange_among(const AllreduceProblem& exchange, bool sharded) {
  if (exchange.switches) return OkTopkExchange::switch_group;
  return sharded ? OkTopkExchange::rings : OkTopkExchange::whole;
}

std::string text_of(const ScheduleChoice& choice) {
  const bool phased = choice.schedule == ExchangeSchedule::phased;
  return fmt::format("{}{}", name_of(choice.schedule), phased ? fmt::format(" with radix {}", choice.radix) : "");
}

}  // namespace

void choose_schedules(const Machine& machine, const AllreduceProblem& whole, std::int64_t final_k, bool sharded,
                      AllreduceProblem& exchange) {
  const OkTopkExchange which = exchange_among(exchange, sharded);
  const bool by_k = whole.config.schedule == ExchangeSchedule::automatic;
  Problem problem = cost_problem(*whole.topology, whole.config, final_k);
  exchange.schedules.clear();
  // Steps of a factor of two are as fine as the costs are true.
  for (std::int64_t k = final_k;; k = std::min(2 * k, whole.largest_k)) {
    problem.k = k;
    const ScheduleChoice choice = choose_schedule(machine, problem, which);
    const std::int64_t largest_k = std::min(exchange.largest_k, sharded ? k / problem.smallest_node + 2 : k);
    if (!exchange.schedules.empty() && exchange.schedules.back().choice == choice)
      exchange.schedules.back().largest_k = largest_k;
    else
      exchange.schedules.push_back({largest_k, choice});
    if (choice.schedule == ExchangeSchedule::phased) problem.radix = choice.radix;
    if (!by_k || k >= whole.largest_k) break;
  }
  exchange.schedules.back().largest_k = exchange.largest_k;
}

std::string schedule_text(const AllreduceProblem& exchange) {
  std::string all;
  const std::size_t count = exchange.schedules.size();
  for (std::size_t i = 0; i + 1 < count; ++i)
    all += fmt::format("{} up to k {}, ", text_of(exchange.schedules[i].choice), exchange.schedules[i].largest_k);
  all += text_of(count == 0 ? ScheduleChoice{} : exchange.schedules.back().choice);
  return fmt::format("schedule: {}{}{}\n", all, count > 1 ? " above" : "",
                     exchange.switches ? "; among switch groups: direct" : "");
}

std::string schedule_reason(const Machine* machine, const AllreduceProblem& whole, std::int64_t final_k, bool sharded,
                            const AllreduceProblem& exchange) {
  const AllreduceConfig& config = whole.config;
  if (config.schedule != ExchangeSchedule::automatic) return "  as asked for\n";
  if (config.memory != MemorySpace::host) return "  the only one for CUDA memory\n";
  if (config.wire_values != WireValues::native)
    return fmt::format("  the only one for wire_values {}\n", name_of(config.wire_values));
  if (!any_schedule(config))
    return fmt::format("  the only one for threshold {}, which may select more than k entries\n", name_of(config.threshold));
  const Problem problem = cost_problem(*whole.topology, config, final_k);
  std::string predictions;
  for (const CostedSchedule& one : considered_schedules(*machine, problem, exchange_among(exchange, sharded)))
    predictions += fmt::format("{}{} {:.3f} ms", predictions.empty() ? "" : ", ", text_of(one.choice), one.seconds * 1e3);
  return fmt::format("  predicted exchange at k {}: {}\n", final_k, predictions);
}

}  // namespace weir
