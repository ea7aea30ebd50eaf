// gradient_buffer.hpp: a gradient in the memory that a benchmark is about, for programs under mpirun.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>
#include <weir/weir.hpp>

namespace weir::cli {

/// Every call returns when what it asks for is done.
class GradientBuffer {
 public:
  virtual ~GradientBuffer() = default;
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;
  virtual void fill(const std::vector<float>& gradient) = 0;
  /// Runs a plan in the same memory. It delivers in place (`dense`) or sparse.
  virtual void run(AllreducePlan& plan, bool dense) = 0;
  /// MPI's own sum of the dense array, and what that is called.
  virtual void allreduce() = 0;
  [[nodiscard]] virtual const char* baseline() const = 0;

 protected:
  GradientBuffer() = default;
};

/// Collective. In CUDA memory: on the GPU that the rank should use, which is the thread's until the buffer is gone. Throws
/// Error(WEIR_ERR_UNSUPPORTED) on every rank where one sees none.
[[nodiscard]] std::unique_ptr<GradientBuffer> make_gradient_buffer(const Communicator& comm, MemorySpace memory,
                                                                   std::int64_t count);

/// Collective. The number of the GPU that this rank should use; throws as above.
[[nodiscard]] int gpu_to_use(const Communicator& comm);

}  // namespace weir::cli
