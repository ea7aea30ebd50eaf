#include "model/stages.hpp"

namespace weir {

using namespace model;

Cost cost_topk_ring(const Machine& machine, const Problem& problem) {
  const Setting setting(machine, problem);
  const Rates& rates = machine.rates;
  StepCost traffic = setting.network.allgather(setting.all, 16);  // the cards
  for (int step = 0; step < problem.ranks - 1; ++step)
    traffic += setting.network.shift(setting.all, 1, message_bytes(problem, setting.k, setting.n));
  traffic.seconds += setting.k / rates.encode + (problem.ranks - 1) * setting.k / rates.decode +
                     merged_entries(setting.n, setting.k, problem.ranks) / rates.merge;
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, traffic);
  cost.apply = apply_seconds(setting, 0) + distinct(setting.n, setting.k, problem.ranks) / rates.scatter;
  return cost;
}

}  // namespace weir
