// device_stream.hpp: the stream of a plan in CUDA memory, and its order relative to the streams of callers.
#pragma once

#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/caller_stream.hpp"

namespace weir::detail {

/// Owns a stream on the GPU that is the thread's current one at construction.
class PlanStream {
 public:
  [[nodiscard]] void* get() const noexcept { return stream_.get(); }
  [[nodiscard]] int device() const noexcept { return device_; }

  /// See CallerStream::enter.
  [[nodiscard]] InputError error_of(const void* gradient, void* stream) { return caller_.enter(gradient, stream); }

  /// Marks the work of one run whose input has no error. When it ends, later work on the caller's stream is made to wait for this
  /// work, which may still read the gradient. This also holds if the run fails.
  class Work {
   public:
    explicit Work(PlanStream& stream) : stream_(stream) { stream_.caller_.hold(stream_.get()); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() { stream_.caller_.leave(stream_.get()); }

   private:
    PlanStream& stream_;
  };

  void describe(ExchangeSpec& spec) const {
    spec.stream = get();
    spec.device = device();
  }
  /// Waits until all work is done.
  void drain() noexcept {
    try {
      cuda::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: no work runs on it any more
    }
  }

 private:
  int device_ = cuda::current_device();
  cuda::Stream stream_;
  CallerStream caller_;
};

}  // namespace weir::detail
