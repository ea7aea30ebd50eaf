// HiTopKComm (CommLib Algorithm 2): topk_allgather within the in-node steps of a row with `sharded`.
#include "collectives/allreduce_topk_allgather.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost of HiTopKComm: dense sums within the node, k / S entries of every shard gathered across nodes, and back.
Cost cost_hitopk(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const double range = setting.n / setting.shards, k = setting.k / setting.shards;
  const double update = model::distinct(range, k, problem.nodes);
  Cost cost;
  book_in_node(cost, node_reduce_scatter(setting));
  cost.select = select_seconds(setting, range, k);
  book_across(cost, gather_and_merge(setting, setting.rings, range, k));
  book_in_node(cost, node_allgather(setting, model::message_bytes(problem, update, range)));
  cost.apply = apply_seconds(setting, update * setting.shards);
  return cost;
}

}  // namespace

const AllreduceRow hitopk_row{.name = "hitopk",
                              .description = "HiTopKComm: reduce-scatter in the node, topk_allgather of each shard across nodes",
                              .cost = cost_hitopk,
                              .sharded = true,
                              .delivers_all = true,
                              .cuda_memory = true,
                              .sparse_factories = topk_allgather_factories};

}  // namespace weir
