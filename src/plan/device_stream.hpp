// device_stream.hpp: the stream of a plan in CUDA memory, and how its work stands to that on its callers' streams.
#pragma once

#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/caller_stream.hpp"

namespace weir::detail {

/// On the GPU that is the thread's when it is made.
class PlanStream {
 public:
  [[nodiscard]] void* get() const noexcept { return stream_.get(); }
  [[nodiscard]] int device() const noexcept { return device_; }

  /// As CallerStream::enter.
  [[nodiscard]] InputError error_of(const void* gradient, void* stream) { return caller_.enter(gradient, stream); }

  /// The work of one run, for which input_error() found nothing. However it ends, what comes later on the caller's stream comes
  /// after it: it may still read the gradient.
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
  /// Until all work is done.
  void drain() noexcept {
    try {
      cuda::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: nothing runs any more
    }
  }

 private:
  int device_ = cuda::current_device();
  cuda::Stream stream_;
  CallerStream caller_;
};

}  // namespace weir::detail
