#include "collectives/oktopk_schedules.hpp"

#include <algorithm>
#include <bit>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "collectives/oktopk_parameters.hpp"

namespace weir {
namespace {

/// Returns true if results cannot depend on the schedule: ranks contribute at most k entries, with unrounded values, in host
/// memory.
bool any_schedule(const ExchangeSpec& spec) {
  return spec.at_most_k && spec.wire_values == WireValues::native && spec.memory == MemorySpace::host;
}

ScheduleRequest request_of(const ExchangeSpec& spec) {
  const OkTopkParameters parameters(spec.parameters);
  return {parameters.schedule, parameters.radix, any_schedule(spec), static_cast<bool>(spec.node_memory)};
}

/// Returns the problem for the cost functions. It is the whole exchange, even if `spec` is a shard of it.
Problem problem_of(const ExchangeSpec& spec) {
  const ExchangeSpec& whole = spec.whole ? *spec.whole : spec;
  Problem problem = make_problem(*whole.topology, whole.count, whole.final_k, whole.type);
  problem.format = whole.wire_format;
  return problem;
}

std::string text_of(const ScheduleChoice& choice) {
  const bool phased = choice.schedule == ExchangeSchedule::phased;
  return fmt::format("{}{}", name_of(choice.schedule), phased ? fmt::format(" with radix {}", choice.radix) : "");
}

std::vector<ScheduleUpTo> cheapest_schedules(const ExchangeSpec& spec, OkTopkExchange exchange) {
  const std::int64_t largest_k = spec.whole ? spec.whole->largest_k : spec.largest_k;
  ScheduleRequest request = request_of(spec);
  const bool by_k = request.schedule == ExchangeSchedule::automatic;
  Problem problem = problem_of(spec);
  std::vector<ScheduleUpTo> schedules;
  // Steps of a factor of two are as fine as the accuracy of the costs.
  for (std::int64_t k = problem.k;; k = std::min(2 * k, largest_k)) {
    problem.k = k;
    const ScheduleChoice choice = choose_schedule(*spec.machine, problem, request, exchange);
    const std::int64_t up_to = std::min(spec.largest_k, spec.whole ? k / problem.smallest_node + 2 : k);
    if (!schedules.empty() && schedules.back().choice == choice)
      schedules.back().largest_k = up_to;
    else
      schedules.push_back({up_to, choice});
    if (choice.schedule == ExchangeSchedule::phased) request.radix = choice.radix;
    if (!by_k || k >= largest_k) break;
  }
  schedules.back().largest_k = spec.largest_k;
  return schedules;
}

/// Returns the reason as text. It gives predictions for the schedules that were considered, at the k of most runs. Phases and one
/// round are considered only within their limits (docs/which-algorithm.md).
std::string reason(const ExchangeSpec& spec, OkTopkExchange exchange) {
  const ScheduleRequest request = request_of(spec);
  if (request.schedule == ExchangeSchedule::shared && spec.ranks == 1) return "there is one rank";
  if (request.schedule != ExchangeSchedule::automatic) return "as asked for";
  if (request.shared) return "all ranks are on one node and share memory";
  if (spec.memory != MemorySpace::host) return "the only one for CUDA memory";
  if (spec.wire_values != WireValues::native) return fmt::format("the only one for wire_values {}", name_of(spec.wire_values));
  if (!spec.at_most_k) return "the only one for thresholds that may select more than k entries";
  const Problem problem = problem_of(spec);
  std::string predictions;
  for (const CostedSchedule& one : considered_schedules(*spec.machine, problem, request, exchange))
    predictions += fmt::format("{}{} {:.3f} ms", predictions.empty() ? "" : ", ", text_of(one.choice), one.seconds * 1e3);
  return fmt::format("predicted exchange at k {}: {}", problem.k, predictions);
}

}  // namespace

Explanation OkTopkSchedules::explanation() const {
  std::string all;
  for (std::size_t i = 0; i + 1 < up_to.size(); ++i)
    all += fmt::format("{} up to k {}, ", text_of(up_to[i].choice), up_to[i].largest_k);
  all += text_of(up_to.empty() ? ScheduleChoice{} : up_to.back().choice);
  return {fmt::format("schedule: {}{}", all, up_to.size() > 1 ? " above" : ""), why};
}

bool may_share(const ExchangeSpec& spec) {
  const ExchangeSchedule schedule = request_of(spec).schedule;
  return any_schedule(spec) && (schedule == ExchangeSchedule::automatic || schedule == ExchangeSchedule::shared);
}

bool asks_costs_of_schedules(const ExchangeSpec& spec) {
  const ScheduleRequest request = request_of(spec);
  return request.schedule == ExchangeSchedule::automatic ? request.any : request.schedule == ExchangeSchedule::phased;
}

OkTopkSchedules schedules_of(const ExchangeSpec& spec, OkTopkExchange exchange) {
  require(request_of(spec).schedule != ExchangeSchedule::shared || spec.ranks == 1 || spec.node_memory,
          "algorithm_parameters: schedule is shared: it needs a plan with all ranks on one node, room in /dev/shm and "
          "WEIR_SHARED_MEMORY=1, and fused tensors cannot have it; choose automatic");
  OkTopkSchedules schedules{.up_to = {}, .why = reason(spec, exchange)};
  if (asks_costs_of_schedules(spec))
    schedules.up_to = cheapest_schedules(spec, exchange);
  else if (const ExchangeSchedule asked = request_of(spec).schedule;
           asked == ExchangeSchedule::one_round || (asked == ExchangeSchedule::shared && spec.ranks > 1))
    schedules.up_to = {{spec.largest_k, {.schedule = asked}}};
  return schedules;
}

OkTopkSchedules schedules_of(const ExchangeSpec& spec) {
  return schedules_of(spec, spec.whole ? OkTopkExchange::rings : OkTopkExchange::whole);
}

void check_oktopk(const ExchangeSpec& spec) {
  const OkTopkParameters parameters(spec.parameters);
  require(parameters.radix == 0 || (parameters.radix >= 2 && std::has_single_bit(static_cast<unsigned>(parameters.radix))),
          "algorithm_parameters: radix is {}: it must be 2, 4, 8, 16, 32 or 64, or 0 for the cheapest", parameters.radix);
  if (parameters.schedule == ExchangeSchedule::automatic || parameters.schedule == ExchangeSchedule::direct) return;
  const std::string_view schedule = name_of(parameters.schedule);
  require(spec.memory == MemorySpace::host,
          "algorithm_parameters: schedule is {}: it is for host memory, and memory is {}; choose direct", schedule,
          name_of(spec.memory));
  require(spec.wire_values == WireValues::native,
          "algorithm_parameters: schedule is {}: it needs wire_values native, and they are {}; choose direct", schedule,
          name_of(spec.wire_values));
  require(spec.at_most_k,
          "algorithm_parameters: schedule is {}: it needs a threshold that selects at most k entries; choose threshold exact, "
          "or schedule=direct",
          schedule);
}

}  // namespace weir
