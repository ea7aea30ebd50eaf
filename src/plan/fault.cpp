#include "plan/fault.hpp"

#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "cuda/runtime.hpp"
#include "plan/plan_config.hpp"

namespace weir {

Error fault_error(std::uint64_t fault, const AllreduceConfig& config) {
  const auto type = type_name(config.type);
  const int rank = fault_rank(fault);
  switch (fault_kind(fault)) {
    case FaultKind::non_finite:
      if (find_allreduce(config.algorithm).sharded)  // found in the sum of a node's shard
        return {WEIR_ERR_NON_FINITE,
                fmt::format("plan '{}': the gradients on the node of rank {} hold, or add up to, NaN or infinity; gradient and "
                            "residual are as before. Policies 'skip' and 'propagate' accept it",
                            config.name, rank)};
      return {WEIR_ERR_NON_FINITE,
              fmt::format("plan '{}': the gradient of rank {} holds NaN or infinity; gradient and residual are as before. "
                          "Policies 'skip' and 'propagate' accept it",
                          config.name, rank)};
    case FaultKind::null_pointer:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': rank {} gave a null gradient; give {} elements of {}", config.name, rank,
                                             config.count, type)};
    case FaultKind::misaligned:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': the gradient of rank {} is not aligned to its type {}", config.name, rank, type)};
    case FaultKind::wrong_count:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': rank {} gave a gradient of another size; the plan takes {} elements",
                                             config.name, rank, config.count)};
    case FaultKind::wrong_type:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': rank {} gave a gradient of another type; the plan takes {}", config.name, rank, type)};
    case FaultKind::dense_only:
      return {
          WEIR_ERR_ARGUMENT,
          fmt::format(
              "plan '{}': rank {} asked for a sparse result of a dense iteration; use run or start instead of their sparse forms",
              config.name, rank)};
    case FaultKind::stream_of_host_plan:
    case FaultKind::device_memory:
    case FaultKind::host_memory:
    case FaultKind::other_device:
    case FaultKind::bad_stream:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': {}", config.name, memory_fault_text(fault_kind(fault), rank, "plan", "gradient"))};
    case FaultKind::nccl_aborted:
      return {WEIR_ERR_STATE,
              fmt::format("plan '{}': NCCL was aborted on rank {} after an error. Make a new communicator and start over",
                          config.name, rank)};
    case FaultKind::none:
      break;
  }
  return {WEIR_ERR_INTERNAL, fmt::format("plan '{}': unknown fault {:#x}", config.name, fault)};
}

std::string memory_fault_text(FaultKind kind, int rank, std::string_view thing, std::string_view array) {
  switch (kind) {
    case FaultKind::stream_of_host_plan:
      return fmt::format("rank {} gave a stream, but the {} is for host memory: make it with memory cuda", rank, thing);
    case FaultKind::device_memory:
      return fmt::format("the {} of rank {} is in GPU memory, and the {} is for host memory: make it with memory cuda", array, rank,
                         thing);
    case FaultKind::host_memory:
      return fmt::format("the {} of rank {} is in host memory, and the {} is for CUDA memory: make it with memory host", array,
                         rank, thing);
    case FaultKind::other_device:
      return fmt::format("the {} of rank {} is in the memory of another GPU than the one the {} was made on", array, rank, thing);
    default:
      return fmt::format("the stream that rank {} gave does not work: it was destroyed, or belongs to another GPU", rank);
  }
}

FaultKind HostMemory::fault_of(const void* memory, void* stream) {
  if (stream != nullptr) return FaultKind::stream_of_host_plan;
  if (memory == known_) return FaultKind::none;
  if (cuda::place_of(memory).kind == cuda::Place::Kind::device) return FaultKind::device_memory;
  known_ = memory;
  return FaultKind::none;
}

}  // namespace weir
