#include "sums/region_sum.hpp"

namespace weir::sums {

std::int64_t usual_part(const SumProblem& problem) {
  const std::int64_t share = problem.total / problem.ranks;
  return std::min(problem.total, share + share / 4 + 1024);
}

model::StepCost owners_cost(const model::Setting& setting, const SumProblem& problem, bool may_exceed) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const double ranks = problem.ranks, total = static_cast<double>(problem.total), largest = static_cast<double>(problem.largest);
  const double range = static_cast<double>(problem.count) / ranks, part = total / ranks / ranks;

  // 1. numbers of entries, which are all in flight at once
  model::StepCost cost = network.alltoall_control(setting.all, 8);
  if (may_exceed) cost += network.allreduce_control(setting.all, 8);
  // 2. exchange, which the rank with the longest list ends last
  cost += network.all_to_all(setting.all, expected_bytes(largest / ranks, range, problem.value_size), owners_window);
  cost.seconds += largest / rates.encode + (ranks - 1) * part / rates.decode + merge_seconds(setting, problem, part, range);
  if (problem.scatters) return cost;
  // 3. gather
  const double sum = expected_union(total, problem.ranks, static_cast<double>(problem.count)) / ranks;
  cost += network.allgather(setting.all, 8);
  cost += gather_blocks(setting, expected_bytes(sum, range, problem.value_size));
  cost.seconds += sum / rates.encode + (ranks - 1) * sum / rates.decode;
  return cost;
}

}  // namespace weir::sums
