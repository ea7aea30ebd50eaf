#include "collectives/allreduce_packed_allgather.hpp"

#include "collectives/memory_spaces.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost of an allgather of every rank's n compressed elements.
Cost cost_packed_allgather(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost;
  cost.select = check_seconds(setting) + encode_seconds(setting, setting.n);
  book_flat(cost, setting, setting.network.allreduce_control(setting.all, 8));
  book_flat(cost, setting, gather_cost(setting, setting.all, setting.n * problem.packed_bytes));
  cost.apply = problem.ranks * decode_seconds(setting, setting.n);
  return cost;
}

}  // namespace

const AllreduceRow packed_allgather_row{
    .name = "packed_allgather",
    .description = "every rank gathers what a compressor makes of every rank's gradient, and sums",
    .cost = cost_packed_allgather,
    .delivers_all = true,
    .cuda_memory = true,
    .make_packed = make_packed_in_memory_of<PackedAllgather>};

}  // namespace weir
