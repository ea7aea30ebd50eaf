#include "collectives/allreduce_topk_allgather.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost with a Gaussian threshold: one more pass for the moments.
Cost cost_gaussiank(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost = topk_allgather_row.cost(machine, problem);
  cost.select = select_seconds(setting, setting.n, 0) + setting.bytes / machine.rates.add;
  return cost;
}

}  // namespace

const AllreduceRow gaussiank_row{.name = "gaussiank",
                                 .description = "topk_allgather with thresholds from a Gaussian estimate",
                                 .cost = cost_gaussiank,
                                 .delivers_all = true,
                                 .threshold = "gaussian",
                                 .cuda_memory = true,
                                 .sparse_factories = topk_allgather_factories};

}  // namespace weir
