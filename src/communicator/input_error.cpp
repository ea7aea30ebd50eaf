#include "communicator/input_error.hpp"

#include "base/error.hpp"
#include "cuda/runtime.hpp"

namespace weir {

std::string memory_error_text(InputError kind, int rank, std::string_view thing, std::string_view array) {
  switch (kind) {
    case InputError::stream_of_host_plan:
      return fmt::format("rank {} gave a stream, but the {} is for host memory: make it with memory cuda", rank, thing);
    case InputError::device_memory:
      return fmt::format("the {} of rank {} is in GPU memory, and the {} is for host memory: make it with memory cuda", array, rank,
                         thing);
    case InputError::host_memory:
      return fmt::format("the {} of rank {} is in host memory, and the {} is for CUDA memory: make it with memory host", array,
                         rank, thing);
    case InputError::other_device:
      return fmt::format("the {} of rank {} is in the memory of another GPU than the one the {} was made on", array, rank, thing);
    default:
      return fmt::format("the stream that rank {} gave does not work: it was destroyed, or belongs to another GPU", rank);
  }
}

InputError HostPointers::error_of(const void* memory, void* stream) {
  if (stream != nullptr) return InputError::stream_of_host_plan;
  if (memory == known_) return InputError::none;
  if (cuda::place_of(memory).kind == cuda::Place::Kind::device) return InputError::device_memory;
  known_ = memory;
  return InputError::none;
}

}  // namespace weir
