#include "cli/gradient_buffer.hpp"

#include <mpi.h>

#include "base/error.hpp"
#include "cli/bench_input.hpp"
#include "communicator/communicator.hpp"

namespace weir::cli {

GradientBuffer::GradientBuffer(const Communicator& comm, MemorySpace memory, std::int64_t count) {
  if (memory == MemorySpace::host)
    host_ = gradient_memory(count);
  else
    device_.emplace(gpu_to_use(comm), count, comm.state()->device_path.direct);
}

void GradientBuffer::fill(const std::vector<float>& gradient) {
  if (!device_) {
    host_ = gradient;
    return;
  }
  cuda::copy(device_->data.data(), gradient.data(), device_->data.bytes(), device_->stream.get());
  cuda::synchronize(device_->stream.get());
}

void GradientBuffer::run(AllreducePlan& plan, bool dense) {
  if (!device_) {
    if (dense)
      plan.run(host_);
    else
      plan.run_sparse(host_);
    return;
  }
  if (dense)
    plan.run(device_->data.data(), device_->stream.get());
  else
    plan.run_sparse(device_->data.data(), device_->stream.get());
  cuda::synchronize(device_->stream.get());
}

void GradientBuffer::allreduce() {
  const auto sum_over_ranks = [](float* data, std::int64_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  if (!device_) return sum_over_ranks(host_.data(), std::ssize(host_));
  auto& [on, stream, data, staging] = *device_;
  if (!staged()) return sum_over_ranks(data.data(), data.size());
  cuda::copy(staging.data(), data.data(), data.bytes(), stream.get());
  cuda::synchronize(stream.get());
  sum_over_ranks(staging.data(), staging.size());
  cuda::copy(data.data(), staging.data(), data.bytes(), stream.get());
  cuda::synchronize(stream.get());
}

int gpu_to_use(const Communicator& comm) {
  const int mine = comm.nearest_gpu();
  const std::span<const std::int32_t> all = comm.state()->share("choosing GPUs", std::int32_t{mine});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] < 0) {
      fail(WEIR_ERR_UNSUPPORTED, "--memory cuda cannot run here: rank {} has no GPU{}{}", rank, mine < 0 ? ": " : "",
           mine < 0 ? cuda::why_unusable() : "");
    }
  }
  return mine;
}

}  // namespace weir::cli
