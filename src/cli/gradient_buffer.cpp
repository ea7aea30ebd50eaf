#include "cli/gradient_buffer.hpp"

#include <mpi.h>

#include "base/error.hpp"
#include "cli/bench_input.hpp"
#include "communicator/communicator.hpp"
#include "cuda/runtime.hpp"

namespace weir::cli {
namespace {

void sum_over_ranks(float* data, std::int64_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

class HostBuffer final : public GradientBuffer {
 public:
  explicit HostBuffer(std::int64_t count) : data_(gradient_memory(count)) {}
  void fill(const std::vector<float>& gradient) override { data_ = gradient; }
  void run(AllreducePlan& plan, bool dense) override {
    if (dense)
      plan.run(data_);
    else
      plan.run_sparse(data_);
  }
  void allreduce() override { sum_over_ranks(data_.data(), static_cast<std::int64_t>(data_.size())); }
  [[nodiscard]] const char* baseline() const override { return "MPI_Allreduce"; }

 private:
  std::vector<float> data_;
};

class DeviceBuffer final : public GradientBuffer {
 public:
  /// `direct`: MPI takes pointers to CUDA memory. Otherwise the baseline copies to pinned memory and back, as a program would have
  /// to.
  DeviceBuffer(int device, std::int64_t count, bool direct) : on_(device), data_(count), staging_(direct ? 0 : count) {}
  void fill(const std::vector<float>& gradient) override {
    cuda::copy(data_.data(), gradient.data(), data_.bytes(), stream_.get());
    cuda::synchronize(stream_.get());
  }
  void run(AllreducePlan& plan, bool dense) override {
    if (dense)
      plan.run(data_.data(), stream_.get());
    else
      plan.run_sparse(data_.data(), stream_.get());
    cuda::synchronize(stream_.get());
  }
  void allreduce() override {
    if (staging_.size() == 0) {
      sum_over_ranks(data_.data(), data_.size());
      return;
    }
    cuda::copy(staging_.data(), data_.data(), data_.bytes(), stream_.get());
    cuda::synchronize(stream_.get());
    sum_over_ranks(staging_.data(), staging_.size());
    cuda::copy(data_.data(), staging_.data(), data_.bytes(), stream_.get());
    cuda::synchronize(stream_.get());
  }
  [[nodiscard]] const char* baseline() const override { return staging_.size() == 0 ? "MPI_Allreduce" : "MPI_Allreduce, staged"; }

 private:
  cuda::OnDevice on_;
  cuda::Stream stream_;
  cuda::DeviceArray<float> data_;
  cuda::PinnedArray<float> staging_;
};

}  // namespace

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

std::unique_ptr<GradientBuffer> make_gradient_buffer(const Communicator& comm, MemorySpace memory, std::int64_t count) {
  if (memory == MemorySpace::host) return std::make_unique<HostBuffer>(count);
  return std::make_unique<DeviceBuffer>(gpu_to_use(comm), count, comm.state()->device_path.direct);
}

}  // namespace weir::cli
