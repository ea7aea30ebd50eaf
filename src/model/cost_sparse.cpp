// Cost functions of the sparse algorithms.
#include "model/stages.hpp"

namespace weir {

using namespace model;

namespace {

constexpr double announcement_bytes = 16;  // size and fault; what it announces is received only then

/// Ends with every rank holding the sum of k entries out of `range` from each: distinct(range, k, ranks) entries.
StepCost gather_and_merge(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  StepCost traffic = setting.network.allgather(group, announcement_bytes);
  traffic += setting.network.allgather(group, message_bytes(setting.problem, k, range));
  traffic.seconds += k / rates.encode + (group.ranks - 1) * k / rates.decode + merged_entries(range, k, group.ranks) / rates.merge;
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

}  // namespace weir
