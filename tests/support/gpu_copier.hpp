// gpu_copier.hpp: lets virtual ranks send from and receive into GPU memory, as with a CUDA-aware MPI.
#pragma once

#include <memory>
#include <vector>

#include "cuda/runtime.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::test {

class GpuCopier final : public InprocCopier {
 public:
  Completion* copy(void* to, const void* from, std::int64_t bytes) override {
    if (!on_gpu(to) && !on_gpu(from)) return nullptr;
    const cuda::OnDevice on(device_);
    Copy& copy = free_one();
    cuda::copy(to, from, bytes, stream_.get());
    copy.begin(stream_.get());
    return &copy;
  }

 private:
  class Copy final : public Completion {
   public:
    void begin(void* stream) {
      event_.record(stream);
      under_way_ = true;
    }
    bool reached() override {
      under_way_ = under_way_ && !event_.reached();
      return !under_way_;
    }
    [[nodiscard]] bool under_way() const { return under_way_; }

   private:
    cuda::Event event_;
    bool under_way_ = false;
  };

  static bool on_gpu(const void* address) { return cuda::place_of(address).kind == cuda::Place::Kind::device; }
  Copy& free_one() {
    for (const auto& copy : copies_) {
      if (!copy->under_way()) return *copy;
    }
    return *copies_.emplace_back(std::make_unique<Copy>());
  }

  int device_ = cuda::current_device();
  cuda::Stream stream_;
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace weir::test
