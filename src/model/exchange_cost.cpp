#include "model/exchange_cost.hpp"

#include <algorithm>

#include "collectives/alltoallv.hpp"

namespace weir {
namespace model {

StepCost direct_alltoallv(const Setting& setting, double bytes) {
  return setting.network.all_to_all(setting.all, bytes, direct_alltoallv_window);
}

StepCost by_node_alltoallv(const Setting& setting, double bytes) {
  const int ranks = setting.problem.largest_node, others = setting.problem.nodes - 1;
  if (others == 0 || ranks == 1) return direct_alltoallv(setting, bytes);
  const int gateways = std::min(ranks, others), turns = (others + ranks - 1) / ranks;
  const double outside = setting.problem.ranks - ranks;
  const double part = bytes * outside / others;  // from one rank to one node
  // In the node the gateways have most to do, or all ranks the same: what they receive determines the cost.
  StepCost traffic = setting.network.local(gateways, ranks - 1, 8 * (outside + others) / gateways);
  traffic += setting.network.local(gateways, turns * (ranks - 1), part);
  traffic.seconds += turns * ranks * part / setting.machine.rates.add;
  traffic += setting.network.all_to_all({.ranks = turns + 1, .per_node = 1, .concurrent = gateways}, ranks * part, turns);
  traffic += setting.network.local(gateways, turns * (ranks - 1), part);
  traffic += setting.network.local(ranks, ranks - 1, bytes);
  return traffic;
}

}  // namespace model

bool by_node_is_cheaper(const Machine& machine, const Problem& problem, double bytes_per_pair) {
  const model::Setting setting(machine, problem);
  return model::by_node_alltoallv(setting, bytes_per_pair).seconds < model::direct_alltoallv(setting, bytes_per_pair).seconds;
}

}  // namespace weir
