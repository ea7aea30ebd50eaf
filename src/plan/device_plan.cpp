// Plans for CUDA memory: gradient, residual and update stay on the GPU; only messages leave it.
#include <array>

#include "base/error.hpp"
#include "base/log.hpp"
#include "communicator/caller_stream.hpp"
#include "compress/device_codec.hpp"
#include "nccl/allreduce_dense.hpp"
#include "plan/cuda_arrays.hpp"
#include "plan/plan_config.hpp"
#include "plan/step.hpp"
#include "plan/typed_step.hpp"

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

class DevicePlanMemory final : public PlanMemory {
 public:
  explicit DevicePlanMemory(const DeviceNeeds& needs) : nccl_(needs.nccl), in_nodes_(needs.in_nodes) {}

  CallerMemory& caller() override { return caller_; }
  std::unique_ptr<Step> make_step(const CommunicatorState& comm, Channel channel, const AllreduceConfig& config,
                                  ExchangeSpec whole) override {
    whole.stream = stream_.get();
    whole.device = device_;
    const auto make = [&]<class G, class T>(G, T) -> std::unique_ptr<Step> {
      return std::make_unique<TypedStep<CudaArrays<G, T>>>(comm, channel, config, whole, nccl_, in_nodes_);
    };
    switch (config.type) {
      case DataType::float64:
        return make(double{}, double{});
      case DataType::float16:
        return make(float16{}, float{});
      case DataType::bfloat16:
        return make(bfloat16{}, float{});
      default:
        return make(float{}, float{});
    }
  }
  void drain() noexcept override {
    try {
      cuda::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: no work runs on it any more
    }
  }

 private:
  NcclGroups* nccl_;
  bool in_nodes_;
  int device_ = cuda::current_device();
  cuda::Stream stream_;
  DeviceCaller caller_{stream_.get()};
};

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

std::unique_ptr<PlanMemory> make_device_memory(const DeviceNeeds& needs) {
  if (!cuda::why_unusable().empty()) fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
  return std::make_unique<DevicePlanMemory>(needs);
}

}  // namespace weir::detail
