// gradient_buffer.hpp: a gradient in host or CUDA memory, for benchmarks under mpirun.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>
#include <weir/weir.hpp>

namespace weir::cli {

/// Every call returns when its work is done.
class GradientBuffer {
 public:
  virtual ~GradientBuffer() = default;
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;
  virtual void fill(const std::vector<float>& gradient) = 0;
  /// Runs a plan in this memory. It delivers in place (`dense`) or sparse.
  virtual void run(AllreducePlan& plan, bool dense) = 0;
  /// Runs MPI's own sum of the dense array; its name follows.
  virtual void allreduce() = 0;
  [[nodiscard]] virtual const char* baseline() const = 0;

 protected:
  GradientBuffer() = default;
};

/// Collective. In CUDA memory, uses the GPU that this rank should use and makes it the thread's current one while the buffer lives.
/// Throws Error(WEIR_ERR_UNSUPPORTED) on every rank if one sees no GPU.
[[nodiscard]] std::unique_ptr<GradientBuffer> make_gradient_buffer(const Communicator& comm, MemorySpace memory,
                                                                   std::int64_t count);

/// Collective. Returns the number of the GPU that this rank should use. Throws as above.
[[nodiscard]] int gpu_to_use(const Communicator& comm);

}  // namespace weir::cli
