// gradient_buffer.hpp: a gradient in host or CUDA memory, for benchmarks under mpirun.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>
#include <weir/weir.hpp>

#include "cuda/runtime.hpp"

namespace weir::cli {

/// Every call returns when its work is done. In CUDA memory, it uses the GPU that this rank should use, and makes it the thread's
/// current one while the buffer lives.
class GradientBuffer {
 public:
  /// Collective. Throws Error(WEIR_ERR_UNSUPPORTED) on every rank if one sees no GPU.
  GradientBuffer(const Communicator& comm, MemorySpace memory, std::int64_t count);
  void fill(const std::vector<float>& gradient);
  /// Runs a plan in this memory. It delivers in place (`dense`) or sparse.
  void run(AllreducePlan& plan, bool dense);
  /// Runs MPI's own sum of the dense array; its name follows. If MPI does not take pointers to CUDA memory, copies to pinned memory
  /// and back, as a program would have to.
  void allreduce();
  [[nodiscard]] const char* baseline() const { return staged() ? "MPI_Allreduce, staged" : "MPI_Allreduce"; }

 private:
  struct Device {
    Device(int device, std::int64_t count, bool direct) : on(device), data(count), staging(direct ? 0 : count) {}
    cuda::OnDevice on;
    cuda::Stream stream;
    cuda::DeviceArray<float> data;
    cuda::PinnedArray<float> staging;
  };
  [[nodiscard]] bool staged() const { return device_ && device_->staging.size() > 0; }

  std::vector<float> host_;
  std::optional<Device> device_;
};

/// Collective. Returns the number of the GPU that this rank should use. Throws as above.
[[nodiscard]] int gpu_to_use(const Communicator& comm);

}  // namespace weir::cli
