// NCCL's allreduce. The plan makes it, in src/nccl.
#include "collectives/allreduce.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Returns the cost of NCCL's allreduce: the ring's cost, as if GPUs had the hosts' links and added at the hosts' speed, and
/// another agreement, on whose turn it is.
Cost cost_dense_nccl(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost = dense_ring_row.cost(machine, problem);
  book_flat(cost, setting, agreement(setting));
  return cost;
}

}  // namespace

const AllreduceRow dense_nccl_row{.name = "dense_nccl",
                                  .description = "NCCL's own allreduce, in CUDA memory only",
                                  .cost = cost_dense_nccl,
                                  .host_memory = false,
                                  .cuda_memory = true};

}  // namespace weir
