// Cost functions of the dense algorithms.
#include <bit>

#include "model/stages.hpp"

namespace weir {

using namespace model;

namespace {

/// Ring allreduce of `bytes` within the group.
StepCost ring(const Setting& setting, const Group& group, double bytes) {
  const double part = bytes / group.ranks;
  StepCost traffic;
  for (int s = 0; s < 2 * (group.ranks - 1); ++s) traffic += setting.network.shift(group, 1, part);
  traffic.seconds += (group.ranks - 1) * part / setting.machine.rates.add;
  return traffic;
}

/// Before dense algorithms, ranks agree that the gradients are sound.
StepCost agreement(const Setting& setting) { return setting.network.allreduce_control(setting.all, 8); }

}  // namespace

Cost cost_dense_ring(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost;
  book_flat(cost, setting, agreement(setting));
  book_flat(cost, setting, ring(setting, setting.all, setting.bytes));
  return cost;
}

Cost cost_dense_rabenseifner(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const auto doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.ranks)));
  const double bytes = setting.bytes;
  Cost cost;
  book_flat(cost, setting, agreement(setting));
  StepCost traffic;
  double added = 0;
  if (doubling < problem.ranks) {
    traffic += setting.network.fold(setting.all, bytes / 2, true);
    traffic += setting.network.fold(setting.all, bytes / 2, false);
    traffic += setting.network.fold(setting.all, bytes, false);
    added += bytes / 2;
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    const double half = bytes * distance / doubling;
    traffic += setting.network.mirror(setting.all, distance, half);
    traffic += setting.network.mirror(setting.all, distance, half);
    added += half;
  }
  traffic.seconds += added / machine.rates.add;
  book_flat(cost, setting, traffic);
  return cost;
}

Cost cost_dense_torus2d(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const double shard = setting.bytes / setting.shards;
  Cost cost;
  book_flat(cost, setting, agreement(setting));
  book_in_node(cost, node_reduce_scatter(setting));
  book_across(cost, ring(setting, setting.rings, shard));
  book_in_node(cost, node_dense_allgather(setting));
  return cost;
}

Cost cost_dense_mpi(const Machine& machine, const Problem& problem) {
  Cost cost = cost_dense_ring(machine, problem);
  cost.in_node *= machine.mpi_allreduce_factor;
  cost.exchange *= machine.mpi_allreduce_factor;
  return cost;
}

Cost cost_dense_nccl(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  Cost cost = cost_dense_ring(machine, problem);
  book_flat(cost, setting, agreement(setting));
  return cost;
}

}  // namespace weir
