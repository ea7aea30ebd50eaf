// Cost functions of the packed algorithms.
#include "collectives/allgatherv.hpp"
#include "model/stages.hpp"

namespace weir {

using namespace model;

namespace {

double encode_seconds(const Setting& setting, double elements) {
  return setting.problem.encode_adds * elements * 4 / setting.machine.rates.add;
}
double decode_seconds(const Setting& setting, double elements) {
  return setting.problem.decode_adds * elements * 4 / setting.machine.rates.add;
}
/// Of messages of `bytes`, as PackedGather does it.
StepCost gather(const Setting& setting, const Group& group, double bytes) {
  const bool much = bytes * group.ranks >= static_cast<double>(ring_from_bytes);
  return much ? setting.network.ring_allgather(group, bytes) : setting.network.allgather(group, bytes);
}

}  // namespace

Cost cost_packed_allgather(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost;
  cost.select = encode_seconds(setting, setting.n);
  book_flat(cost, setting, setting.network.allreduce_control(setting.all, 8));
  book_flat(cost, setting, gather(setting, setting.all, setting.n * problem.packed_bytes));
  cost.apply = problem.ranks * decode_seconds(setting, setting.n);
  return cost;
}

Cost cost_packed_reduce_scatter(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double shard = setting.n / setting.shards, part = shard / setting.rings.ranks;
  Cost cost;
  cost.select = encode_seconds(setting, shard);
  book_flat(cost, setting, setting.network.allreduce_control(setting.all, 8));
  if (problem.largest_node > 1) book_in_node(cost, node_reduce_scatter(setting));
  StepCost across = setting.network.all_to_all(setting.rings, part * problem.packed_bytes, usual_window);
  across += gather(setting, setting.rings, part * problem.packed_bytes);
  across.seconds += decode_seconds(setting, shard) + encode_seconds(setting, part);
  book_across(cost, across);
  cost.apply = decode_seconds(setting, shard);
  if (problem.largest_node > 1) book_in_node(cost, node_dense_allgather(setting));
  return cost;
}

}  // namespace weir
