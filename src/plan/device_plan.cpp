// Plans for CUDA memory: gradient, residual and update stay on the GPU; only messages leave it.
#include "plan/device_plan.hpp"

#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "compress/device_codec.hpp"
#include "nccl/allreduce_dense.hpp"
#include "plan/compression.hpp"
#include "plan/cuda_arrays.hpp"
#include "plan/typed_plan.hpp"

namespace weir::detail {
namespace {

/// Collective. Gets NCCL, which dense runs need.
void connect_dense(CommunicatorState& comm, const AllreduceConfig& config, std::string_view what, std::string_view algorithm,
                   int tag) {
  if (const std::string obstacle = connect_nccl(comm, tag, groups_of_dense(algorithm)); !obstacle.empty())
    fail_alike(WEIR_ERR_UNSUPPORTED, "plan '{}': {} in CUDA memory needs NCCL on all ranks; {}", config.name, what, obstacle);
}

/// Collective. Returns true if algorithms that shard have NCCL for the sums in their nodes; otherwise they run flat.
bool connect_nodes(CommunicatorState& comm, const AllreduceConfig& config, int tag, std::string& explanation) {
  if (!find_allreduce(config.algorithm).sharded || comm.topology.largest_node() == 1) return false;
  const std::array wanted = {NcclGroup::node};
  const std::string obstacle = connect_nccl(comm, tag, wanted);
  if (obstacle.empty())
    explanation = fmt::format("dense sums in nodes by NCCL {}", cuda::nccl_version_text(cuda::nccl_version()));
  else
    explanation = fmt::format("runs flat, since in CUDA memory sums in nodes need NCCL on all ranks; {}", obstacle);
  log(comm.settings.log, LogLevel::info, "rank {}: plan '{}': {}: {}", comm.topology.rank(), config.name, config.algorithm,
      explanation);
  explanation += '\n';
  return obstacle.empty();
}

template <class G, class T>
std::shared_ptr<PlanImpl> make(std::shared_ptr<CommunicatorState> comm, const std::vector<AllreduceConfig>& candidates, Lease lease,
                               const DeviceNeeds& needs) {
  return std::make_shared<TypedPlan<CudaArrays<G, T>>>(std::move(comm), candidates, std::move(lease), needs.nccl, needs.in_nodes);
}

}  // namespace

DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag) {
  DeviceNeeds needs;
  const AllreduceRow& row = find_allreduce(config.algorithm);
  const compress::Compressor compressor = compressor_of(config);
  if (row.dense() && !compressor) {
    connect_dense(comm, config, config.algorithm, config.algorithm, tag);
    needs.explanation = fmt::format("by NCCL {}\n", cuda::nccl_version_text(cuda::nccl_version()));
  } else {
    needs.in_nodes = connect_nodes(comm, config, tag, needs.explanation);
    const bool torus = needs.in_nodes || row.name == "dense_torus2d";
    if (config.dense_iterations > 0) connect_dense(comm, config, "dense_iterations", torus ? "dense_torus2d" : "dense_nccl", tag);
    const bool on_gpu = row.sparse() || (row.packed() && compress::has_device_codec(compressor));
    if (!on_gpu) needs.explanation += fmt::format("{} compresses in host memory\n", compressor.row->name);
    if (on_gpu && comm.hands_over_gpu_memory()) comm.gpu_memory_goes_to_transport = true;
  }
  needs.nccl = comm.nccl.get();
  return needs;
}

std::shared_ptr<PlanImpl> make_device_plan(std::shared_ptr<CommunicatorState> comm, const std::vector<AllreduceConfig>& candidates,
                                           Lease lease, const DeviceNeeds& needs) {
  if (!cuda::why_unusable().empty()) fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
  std::shared_ptr<PlanImpl> plan;
  switch (candidates.front().type) {
    case DataType::float64:
      plan = make<double, double>(std::move(comm), candidates, std::move(lease), needs);
      break;
    case DataType::float16:
      plan = make<float16, float>(std::move(comm), candidates, std::move(lease), needs);
      break;
    case DataType::bfloat16:
      plan = make<bfloat16, float>(std::move(comm), candidates, std::move(lease), needs);
      break;
    default:
      plan = make<float, float>(std::move(comm), candidates, std::move(lease), needs);
  }
  plan->explanation = needs.explanation;
  return plan;
}

}  // namespace weir::detail
