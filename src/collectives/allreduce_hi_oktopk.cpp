#include "collectives/allreduce_hi_oktopk.hpp"

#include "collectives/oktopk_cost.hpp"
#include "collectives/oktopk_parameters.hpp"

namespace weir {
namespace {

/// Makes oktopk, in two stages if the exchange may go along switches and there are switch groups.
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_hi_oktopk(const ExchangeSpec& spec) {
  auto groups = spec.along_switches ? find_switch_groups(*spec.topology) : nullptr;
  if (!groups) return make_oktopk<T>(spec);
  return std::make_unique<HiOkTopk<T>>(spec, std::move(groups));
}

}  // namespace

const AllreduceRow hi_oktopk_row{
    .name = "hi_oktopk",
    .description = "Ok-Topk along the machine: reduce-scatter in the node, oktopk of each shard across nodes, by switch group",
    .cost = cost_hi_oktopk,
    .parameters = oktopk_parameters,
    .counters = oktopk_counters,
    .check = check_oktopk,
    .asks_costs = asks_costs_of_schedules,
    .sharded = true,
    .by_switch = true,
    .cuda_memory = true,
    .sparse_factories = {make_hi_oktopk<float>, make_hi_oktopk<double>}};

}  // namespace weir
