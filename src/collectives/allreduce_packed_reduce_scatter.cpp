#include "collectives/allreduce_packed_reduce_scatter.hpp"

#include <array>

#include "collectives/memory_spaces.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost: dense sums in the node, n / P compressed elements from every rank to every other across nodes, an allgather of
/// the compressed sums, and back to the node.
Cost cost_packed_reduce_scatter(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const double shard = setting.n / setting.shards, part = shard / setting.rings.ranks;
  Cost cost;
  cost.select = check_seconds(setting) + encode_seconds(setting, shard);
  book_flat(cost, setting, setting.network.allreduce_control(setting.all, 8));
  if (problem.largest_node > 1) book_in_node(cost, node_reduce_scatter(setting));
  model::StepCost across = setting.network.all_to_all(setting.rings, part * problem.packed_bytes, model::usual_window);
  across += gather_cost(setting, setting.rings, part * problem.packed_bytes);
  across.seconds += decode_seconds(setting, shard) + encode_seconds(setting, part);
  book_across(cost, across);
  cost.apply = decode_seconds(setting, shard);
  if (problem.largest_node > 1) book_in_node(cost, node_dense_allgather(setting));
  return cost;
}

constexpr std::array packed_reduce_scatter_parameters = {window_parameter};

}  // namespace

const AllreduceRow packed_reduce_scatter_row{
    .name = "packed_reduce_scatter",
    .description = "sums in the node, compressed parts to their owners across nodes, sums compressed again to all",
    .cost = cost_packed_reduce_scatter,
    .parameters = packed_reduce_scatter_parameters,
    .sharded = true,
    .delivers_all = true,
    .cuda_memory = true,
    .make_packed = make_packed_in_memory_of<PackedReduceScatter>};

}  // namespace weir
