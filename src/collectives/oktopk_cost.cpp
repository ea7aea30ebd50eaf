#include "collectives/oktopk_cost.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/global_kth.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/phased_reduce.hpp"
#include "model/stages.hpp"

namespace weir {

using namespace model;

namespace {

constexpr double header_bytes = 16;  // size and error
constexpr double histogram_bytes = kth_words * 8;
constexpr int largest_radix = 64;
// Automatic choice stays within the memory of the direct schedule plus a megabyte: one round needs room for the entries of all
// ranks, phases for several times k (phased_room).
constexpr double most_in_one_round = 24576, most_bytes_of_phases = 1024000;
constexpr int fewest_for_phases = 8;
// A step takes more than the latency of its messages: as long as cutting this many entries.
constexpr double entries_of_a_step = 800;
// The smallest share of a run's time that another schedule must save over one round to be worth its additional steps. More steps
// cost more if ranks come late.
constexpr double share_worth_waiting = 0.1;

/// Returns the cost of the k largest of a sum whose regions are at their ranks, encoded, at every rank.
StepCost cut_and_gather(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  const double region = range / group.ranks, part = k / group.ranks;
  const std::int64_t few = few_in_messages(group.ranks);
  const int rounds = usual_rounds(k, few);
  StepCost traffic;
  for (int round = 0; round < rounds; ++round) traffic += setting.network.allreduce_control(group, histogram_bytes);
  const double doubtful = static_cast<double>(few) / 2;
  traffic += setting.network.allgather(group, 12 + doubtful * setting.problem.value_bytes);
  traffic += setting.network.allgather(group, message_bytes(setting.problem, part, region));
  traffic.seconds += distinct(region, part, group.ranks) / rates.cut + part / rates.encode;
  return traffic;
}

StepCost direct(const Setting& setting, const Group& group, double range, double k) {
  StepCost traffic = split_and_reduce(setting, group, range, k);
  traffic += cut_and_gather(setting, group, range, k);
  return traffic;
}

/// Digits of the rank number go from the lowest up, so that partial sums are those of the tree.
StepCost phased(const Setting& setting, const Group& group, double range, double k, int radix) {
  const Rates& rates = setting.machine.rates;
  const int holders = static_cast<int>(std::bit_floor(static_cast<unsigned>(group.ranks)));
  const bool folds = holders < group.ranks;
  StepCost traffic = setting.network.allreduce_control(group, (group.ranks + 2) * 8.0);
  if (folds) traffic += setting.network.fold(group, message_bytes(setting.problem, k, range), false);
  double held = k, width = range;  // entries of a rank, and the positions that they span
  const Link& link = setting.machine.link(group.per_node < group.ranks ? setting.problem.across : setting.problem.inside);
  for (int block = 1; block < holders;) {
    const int digits = std::min(radix, holders / block);
    const double part = held / digits;
    // The messages of a phase are in flight together: one latency, but the bandwidth of all.
    const double bytes = header_bytes + message_bytes(setting.problem, part, width / digits);
    StepCost phase = setting.network.mirror(group, block * (digits / 2), (digits - 1) * bytes);
    phase.seconds += (digits - 2) * link.overhead;
    phase.seconds +=
        (held - part) * (1 / rates.encode + 1 / rates.decode) + merged_entries(width / digits, part, digits) / rates.merge;
    traffic += phase;
    width /= digits;
    held = distinct(width, part, digits);
    block *= digits;
  }
  if (folds) {
    traffic.seconds += held / rates.merge;
    traffic += setting.network.fold(group, message_bytes(setting.problem, held, width), false);
  }
  traffic += cut_and_gather(setting, group, range, k);
  return traffic;
}

StepCost one_round(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  StepCost traffic = setting.network.allgather(group, header_bytes + message_bytes(setting.problem, k, range));
  traffic.seconds += k / rates.encode + (group.ranks - 1) * k / rates.decode + merged_entries(range, k, group.ranks) / rates.merge +
                     distinct(range, k, group.ranks) / rates.cut;
  return traffic;
}

/// Returns the cost of OkTopkInNode.
StepCost shared(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  const bool alone = k * group.ranks <= static_cast<double>(few_in_node);
  const double parts = alone ? 1 : group.ranks, meetings = alone ? 1 : 3;
  const double meeting = setting.network.all_to_all(group, 0, group.ranks).seconds;  // all look at all others
  StepCost traffic;
  traffic.seconds = meetings * meeting + merged_entries(range / parts, k / parts, group.ranks) / rates.merge +
                    distinct(range / parts, k / parts, group.ranks) / rates.cut + (alone ? 0 : k / rates.decode);
  return traffic;
}

/// An exchange of oktopk: its ranks and its size.
struct Exchange {
  Setting setting;
  Group group;
  double range, k;
};

/// `problem` and `near` must outlive the result. `near` becomes the problem as ranks of a switch group see it.
Exchange exchange_of(const Machine& machine, const Problem& problem, OkTopkExchange exchange, Problem& near) {
  const Setting setting(machine, problem);
  const double shard = setting.n / setting.shards, shard_k = setting.k / setting.shards;
  if (exchange == OkTopkExchange::whole) return {setting, setting.all, setting.n, setting.k};
  if (exchange == OkTopkExchange::rings) return {setting, setting.rings, shard, shard_k};
  near = problem;
  near.across = Level::switch_group;
  return {Setting(machine, near), {.ranks = problem.largest_switch, .per_node = 1, .concurrent = setting.shards}, shard, shard_k};
}

/// Returns the cost of an exchange after which every rank holds the k largest of the sum, encoded.
StepCost by_schedule(const Exchange& e, const ScheduleChoice& choice) {
  if (choice.schedule == ExchangeSchedule::one_round) return one_round(e.setting, e.group, e.range, e.k);
  if (choice.schedule == ExchangeSchedule::phased) return phased(e.setting, e.group, e.range, e.k, choice.radix);
  if (choice.schedule == ExchangeSchedule::shared) return shared(e.setting, e.group, e.range, e.k);
  return direct(e.setting, e.group, e.range, e.k);
}

CostedSchedule costed(const Exchange& e, const ScheduleChoice& choice) {
  const StepCost cost = by_schedule(e, choice);
  return {choice, cost.seconds + cost.steps * entries_of_a_step / e.setting.machine.rates.cut};
}

CostedSchedule cheapest_phases(const Exchange& e) {
  CostedSchedule best = costed(e, {.schedule = ExchangeSchedule::phased, .radix = 2});
  for (int radix = 4; radix <= std::min(e.group.ranks, largest_radix); radix *= 2) {
    const CostedSchedule other = costed(e, {.schedule = ExchangeSchedule::phased, .radix = radix});
    if (other.seconds < best.seconds) best = other;
  }
  return best;
}

std::vector<CostedSchedule> considered(const Exchange& e, const Problem& problem, const ScheduleRequest& request) {
  const auto phases = [&] {
    return request.radix == 0 ? cheapest_phases(e) : costed(e, {.schedule = ExchangeSchedule::phased, .radix = request.radix});
  };
  if (request.schedule == ExchangeSchedule::phased) return {phases()};
  if (request.schedule != ExchangeSchedule::automatic) return {costed(e, {.schedule = request.schedule})};
  if (request.shared && request.any && problem.values == WireValues::native && e.group.ranks > 1)
    return {costed(e, {.schedule = ExchangeSchedule::shared})};
  std::vector<CostedSchedule> list{costed(e, {})};
  if (!request.any || problem.values != WireValues::native || e.group.ranks == 1) return list;
  const auto room = static_cast<double>(phased_room(static_cast<std::int64_t>(e.k), e.group.ranks));
  if (e.group.ranks >= fewest_for_phases && room * (4 + problem.value_bytes) <= most_bytes_of_phases) list.push_back(phases());
  if (e.k * e.group.ranks <= most_in_one_round) list.push_back(costed(e, {.schedule = ExchangeSchedule::one_round}));
  return list;
}

StepCost cost_of(const Machine& machine, const Problem& problem, OkTopkExchange exchange) {
  ScheduleRequest request{.any = problem.any_schedule,
                          .shared = exchange == OkTopkExchange::whole && problem.shared_memory && problem.nodes == 1};
  if (!problem.parameters.empty()) {
    const OkTopkParameters given(problem.parameters);
    request.schedule = given.schedule;
    request.radix = given.radix;
  }
  Problem near;
  return by_schedule(exchange_of(machine, problem, exchange, near), choose_schedule(machine, problem, request, exchange));
}

/// Returns the cost of two stages: in every switch group, then, part by part and directly, among the groups.
StepCost oktopk_by_switch(const Machine& machine, const Problem& problem) {
  constexpr double maxima = 5, card_bytes = 24;  // sent among owners of a part, and then among ranks of a group
  const Rates& rates = machine.rates;
  Problem in_group;
  const Exchange inner = exchange_of(machine, problem, OkTopkExchange::switch_group, in_group);
  const Setting setting(machine, problem);
  const int parts = problem.smallest_switch;
  const Group owners{.ranks = problem.switches, .per_node = 1, .concurrent = setting.shards};
  StepCost traffic = cost_of(machine, problem, OkTopkExchange::switch_group);
  traffic.seconds += inner.k / rates.decode;
  traffic += setting.network.allreduce_control(owners, (maxima + parts) * 8);
  traffic += direct(setting, owners, inner.range / parts, inner.k / parts);
  traffic.seconds += inner.k / parts * (1 / rates.decode + 1 / rates.encode);
  traffic += inner.setting.network.allgather(inner.group, card_bytes);
  traffic += inner.setting.network.allgather(
      inner.group, message_bytes(problem, inner.k / parts, inner.range / parts) * parts / inner.group.ranks);
  return traffic;
}

}  // namespace

std::vector<CostedSchedule> considered_schedules(const Machine& machine, const Problem& problem, const ScheduleRequest& request,
                                                 OkTopkExchange exchange) {
  Problem near;
  return considered(exchange_of(machine, problem, exchange, near), problem, request);
}

ScheduleChoice choose_schedule(const Machine& machine, const Problem& problem, const ScheduleRequest& request,
                               OkTopkExchange exchange) {
  Problem near;
  const Exchange e = exchange_of(machine, problem, exchange, near);
  const std::vector<CostedSchedule> list = considered(e, problem, request);
  CostedSchedule best = list.front();
  for (const CostedSchedule& other : list) {
    const bool waits_once = other.choice.schedule == ExchangeSchedule::one_round;
    const double worth_waiting = waits_once ? share_worth_waiting * (select_seconds(e.setting, e.range, e.k) + best.seconds) : 0;
    if (other.seconds < best.seconds + worth_waiting) best = other;
  }
  return best.choice;
}

Cost cost_oktopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, cost_of(machine, problem, OkTopkExchange::whole));
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

Cost cost_hi_oktopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double range = setting.n / setting.shards, k = setting.k / setting.shards;
  Cost cost;
  book_in_node(cost, node_reduce_scatter(setting));
  cost.select = select_seconds(setting, range, k);
  book_across(cost, problem.switches > 1 ? oktopk_by_switch(machine, problem) : cost_of(machine, problem, OkTopkExchange::rings));
  book_in_node(cost, node_allgather(setting, message_bytes(problem, k, range)));
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

}  // namespace weir
