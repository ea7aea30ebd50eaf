// Cost functions of the sparse algorithms.
#include "collectives/global_kth.hpp"
#include "model/stages.hpp"

namespace weir {

using namespace model;

namespace {

constexpr int window = 4;                  // AllreduceConfig's default
constexpr double announcement_bytes = 16;  // size and fault; what it announces is received only then
constexpr double histogram_bytes = kth_words * 8;
constexpr int histogram_rounds = 3;  // of global_kth; two or three with a good guess

/// Ends with every rank holding the sum of k entries out of `range` from each: distinct(range, k, ranks) entries.
StepCost gather_and_merge(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  StepCost traffic = setting.network.allgather(group, announcement_bytes);
  traffic += setting.network.allgather(group, message_bytes(setting.problem, k, range));
  traffic.seconds += k / rates.encode + (group.ranks - 1) * k / rates.decode + merged_entries(range, k, group.ranks) / rates.merge;
  return traffic;
}

/// Every rank sums its region of k entries out of `range` from each.
StepCost split_and_reduce(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  const double region = range / group.ranks, part = k / group.ranks;
  StepCost traffic = setting.network.allreduce_control(group, (group.ranks + 1) * 8.0);
  traffic += setting.network.all_to_all(group, 4, group.ranks);
  traffic += setting.network.all_to_all(group, message_bytes(setting.problem, part, region), window);
  traffic.seconds += k / rates.encode + (k - part) / rates.decode + merged_entries(region, part, group.ranks) / rates.merge;
  return traffic;
}

/// Ends with every rank holding the k largest of the sum, encoded.
StepCost oktopk(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  const double region = range / group.ranks, part = k / group.ranks;
  StepCost traffic = split_and_reduce(setting, group, range, k);
  for (int round = 0; round < histogram_rounds; ++round) traffic += setting.network.allreduce_control(group, histogram_bytes);
  traffic += setting.network.allgather(group, 12);
  traffic += setting.network.allgather(group, message_bytes(setting.problem, part, region));
  traffic.seconds += distinct(region, part, group.ranks) / rates.cut + part / rates.encode;
  return traffic;
}

/// The same in two stages: in every switch group, then, part by part, among the groups.
StepCost oktopk_by_switch(const Setting& setting, double range, double k) {
  constexpr double maxima = 5, card_bytes = 24;  // of what owners of a part, and then ranks of a group, tell each other
  const Rates& rates = setting.machine.rates;
  Problem in_group = setting.problem;
  in_group.across = Level::switch_group;
  const Setting near(setting.machine, in_group);
  const int parts = setting.problem.smallest_switch;
  const Group group{.ranks = setting.problem.largest_switch, .per_node = 1, .concurrent = setting.shards};
  const Group owners{.ranks = setting.problem.switches, .per_node = 1, .concurrent = setting.shards};
  StepCost traffic = oktopk(near, group, range, k);
  traffic.seconds += k / rates.decode;
  traffic += setting.network.allreduce_control(owners, (maxima + parts) * 8);
  traffic += oktopk(setting, owners, range / parts, k / parts);
  traffic.seconds += k / parts * (1 / rates.decode + 1 / rates.encode);
  traffic += near.network.allgather(group, card_bytes);
  traffic += near.network.allgather(group, message_bytes(setting.problem, k / parts, range / parts) * parts / group.ranks);
  return traffic;
}

}  // namespace

Cost cost_topk_allgather(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, gather_and_merge(setting, setting.all, setting.n, setting.k));
  // Decoded before they were merged.
  cost.apply = apply_seconds(setting, 0) + distinct(setting.n, setting.k, problem.ranks) / machine.rates.scatter;
  return cost;
}

Cost cost_gaussiank(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost = cost_topk_allgather(machine, problem);
  cost.select = select_seconds(setting, setting.n, 0) + setting.bytes / machine.rates.add;
  return cost;
}

Cost cost_topk_dsa(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double region = setting.n / problem.ranks;
  const double reduced = distinct(region, setting.k / problem.ranks, problem.ranks);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, split_and_reduce(setting, setting.all, setting.n, setting.k));
  book_flat(cost, setting, setting.network.allgather(setting.all, 12));
  StepCost gather = setting.network.allgather(setting.all, message_bytes(problem, reduced, region));
  gather.seconds += reduced / machine.rates.encode;
  book_flat(cost, setting, gather);
  cost.apply = apply_seconds(setting, reduced * problem.ranks);
  return cost;
}

Cost cost_gtopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const Rates& rates = machine.rates;
  const double message = message_bytes(problem, setting.k, setting.n);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  for (int distance = 1; distance < problem.ranks; distance *= 2) {
    StepCost down = setting.network.tree_level(setting.all, distance, announcement_bytes);
    down += setting.network.tree_level(setting.all, distance, message);
    StepCost up = down;
    up.seconds += setting.k * (1 / rates.encode + 1 / rates.decode + 2 / rates.merge + 2 / rates.cut);
    // The root sends most: every message of the broadcast, none of the reduction.
    up.bytes_in_node = up.bytes_across = 0;
    book_flat(cost, setting, up);
    book_flat(cost, setting, down);
  }
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

Cost cost_oktopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, oktopk(setting, setting.all, setting.n, setting.k));
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

Cost cost_hitopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double range = setting.n / setting.shards, k = setting.k / setting.shards;
  const double update = distinct(range, k, problem.nodes);
  Cost cost;
  book_in_node(cost, node_reduce_scatter(setting));
  cost.select = select_seconds(setting, range, k);
  book_across(cost, gather_and_merge(setting, setting.rings, range, k));
  book_in_node(cost, node_allgather(setting, message_bytes(problem, update, range)));
  cost.apply = apply_seconds(setting, update * setting.shards);
  return cost;
}

Cost cost_hi_oktopk(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double range = setting.n / setting.shards, k = setting.k / setting.shards;
  Cost cost;
  book_in_node(cost, node_reduce_scatter(setting));
  cost.select = select_seconds(setting, range, k);
  book_across(cost, problem.switches > 1 ? oktopk_by_switch(setting, range, k) : oktopk(setting, setting.rings, range, k));
  book_in_node(cost, node_allgather(setting, message_bytes(problem, k, range)));
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

}  // namespace weir
