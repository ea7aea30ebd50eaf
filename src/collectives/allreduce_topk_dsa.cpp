#include "collectives/allreduce_topk_dsa.hpp"

#include <array>

#include "collectives/memory_spaces.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost of SparCML's dynamic sparse allreduce: owners sum regions, dense if that is smaller, then allgatherv.
Cost cost_topk_dsa(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const double region = setting.n / problem.ranks;
  const double reduced = model::distinct(region, setting.k / problem.ranks, problem.ranks);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, split_and_reduce(setting, setting.all, setting.n, setting.k));
  book_flat(cost, setting, setting.network.allgather(setting.all, 12));
  model::StepCost gather = setting.network.allgather(setting.all, model::message_bytes(problem, reduced, region));
  gather.seconds += reduced / machine.rates.encode;
  book_flat(cost, setting, gather);
  cost.apply = apply_seconds(setting, reduced * problem.ranks);
  return cost;
}

constexpr std::array topk_dsa_parameters = {window_parameter};

}  // namespace

const AllreduceRow topk_dsa_row{
    .name = "topk_dsa",
    .description = "SparCML's dynamic sparse allreduce: split, reduce, allgather; dense where sparsity stops paying",
    .cost = cost_topk_dsa,
    .parameters = topk_dsa_parameters,
    .delivers_all = true,
    .cuda_memory = true,
    .sparse_factories = sparse_in_both_memories<TopkDsa>};

}  // namespace weir
