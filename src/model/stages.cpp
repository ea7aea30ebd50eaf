#include "model/stages.hpp"

#include <algorithm>

namespace weir::model {
namespace {

constexpr double moves_of_add = 3;               // Rates::add counts an element once; it is read, and its sum read and written
constexpr double cached_move = 0.5;              // of the time of one in memory
constexpr double entries_of_a_selection = 1500;  // selecting few takes as long as cutting this many entries, about a microsecond

}  // namespace

Setting::Setting(const Machine& machine_in, const Problem& problem_in)
    : machine(machine_in),
      problem(problem_in),
      network(machine_in, problem_in),
      all{.ranks = problem_in.ranks, .per_node = problem_in.largest_node},
      rings{.ranks = problem_in.nodes, .per_node = 1, .concurrent = problem_in.smallest_node},
      node{.ranks = problem_in.largest_node, .per_node = problem_in.largest_node},
      n(static_cast<double>(problem_in.count)),
      k(static_cast<double>(problem_in.k)),
      bytes(n * problem_in.value_bytes),
      shards(problem_in.smallest_node) {}

void book_flat(Cost& cost, const Setting& setting, const StepCost& traffic) {
  (setting.problem.nodes > 1 ? book_across : book_in_node)(cost, traffic);
}

namespace {

void book_bytes(Cost& cost, const StepCost& traffic) {
  cost.bytes_in_node += traffic.bytes_in_node;
  cost.bytes_across += traffic.bytes_across;
}

}  // namespace

void book_across(Cost& cost, const StepCost& traffic) {
  cost.exchange += traffic.seconds;
  book_bytes(cost, traffic);
}

void book_in_node(Cost& cost, const StepCost& traffic) {
  cost.in_node += traffic.seconds;
  book_bytes(cost, traffic);
}

double select_seconds(const Setting& setting, double n, double k) {
  const Rates& rates = setting.machine.rates;
  return n / rates.select + (k + entries_of_a_selection) / rates.cut;
}

double apply_seconds(const Setting& setting, double entries) {
  const Rates& rates = setting.machine.rates;
  return setting.n / rates.fill + entries * (1 / rates.decode + 1 / rates.scatter);
}

double merged_entries(double range, double k, int leaves) {
  double entries = 0;
  for (int width = 1; width < leaves; width *= 2) entries += static_cast<double>(leaves) / width * distinct(range, k, width);
  return entries;
}

double check_seconds(const Setting& setting) { return setting.bytes / (moves_of_add * setting.machine.rates.add); }

StepCost agreement(const Setting& setting) { return setting.network.allreduce_control(setting.all, 8); }

StepCost ring_allreduce(const Setting& setting, const Group& group, double bytes) {
  const double part = bytes / group.ranks;
  StepCost traffic;
  for (int s = 0; s < 2 * (group.ranks - 1); ++s) traffic += setting.network.shift(group, 1, part);
  traffic.seconds += (group.ranks - 1) * part / setting.machine.rates.add;
  return traffic;
}

StepCost gather_and_merge(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  StepCost traffic = setting.network.allgather(group, announcement_bytes);
  traffic += setting.network.allgather(group, message_bytes(setting.problem, k, range));
  traffic.seconds += k / rates.encode + (group.ranks - 1) * k / rates.decode + merged_entries(range, k, group.ranks) / rates.merge;
  return traffic;
}

double encode_seconds(const Setting& setting, double elements) {
  return setting.problem.encode_adds * elements * 4 / setting.machine.rates.add;
}
double decode_seconds(const Setting& setting, double elements) {
  return setting.problem.decode_adds * elements * 4 / setting.machine.rates.add;
}

StepCost split_and_reduce(const Setting& setting, const Group& group, double range, double k) {
  const Rates& rates = setting.machine.rates;
  const double region = range / group.ranks, part = k / group.ranks;
  StepCost traffic = setting.network.allreduce_control(group, (group.ranks + 1) * 8.0);
  traffic += setting.network.alltoall_control(group, 4);
  traffic += setting.network.all_to_all(group, message_bytes(setting.problem, part, region), usual_window);
  traffic.seconds += k / rates.encode + (k - part) / rates.decode + merged_entries(region, part, group.ranks) / rates.merge;
  return traffic;
}

bool shares_memory(const Setting& setting) { return setting.problem.shared_memory && setting.problem.largest_node > 1; }

StepCost node_pipeline(const Setting& setting, double meetings, double bytes, double cached) {
  const double meeting = setting.network.all_to_all(setting.node, 0, setting.node.ranks).seconds;  // all look at all others
  StepCost traffic;
  traffic.seconds = meetings * meeting + (bytes + cached * cached_move) / (moves_of_add * setting.machine.rates.add);
  return traffic;
}

StepCost node_reduce_scatter(const Setting& setting) {
  const int ranks = setting.problem.largest_node;
  const double shard = setting.bytes / setting.shards;
  if (shares_memory(setting)) {
    const double copied = setting.bytes - (ranks > setting.shards ? 0 : shard);
    StepCost traffic = setting.network.allreduce_control(setting.node, 8);
    traffic.seconds += (copied + (ranks - 1) * shard) / setting.machine.rates.add;
    return traffic;
  }
  StepCost traffic = setting.network.local(ranks, ranks > setting.shards ? setting.shards : setting.shards - 1, shard);
  traffic.seconds += (ranks - 1) * shard / setting.machine.rates.add;
  return traffic;
}

StepCost node_dense_allgather(const Setting& setting) {
  if (!shares_memory(setting)) return node_allgather(setting, setting.bytes / setting.shards);
  StepCost traffic = setting.network.allreduce_control(setting.node, 8);
  traffic.seconds += setting.bytes / setting.machine.rates.add;
  return traffic;
}

StepCost node_allgather(const Setting& setting, double bytes) {
  return setting.network.local(setting.shards, setting.problem.largest_node - 1, bytes);
}

}  // namespace weir::model
