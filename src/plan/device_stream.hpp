// device_stream.hpp: the stream of a plan in CUDA memory, and how its work stands to that on its callers' streams.
#pragma once

#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "plan/fault.hpp"

namespace weir::detail {

/// On the GPU that is the thread's when it is made.
class PlanStream {
 public:
  [[nodiscard]] void* get() const noexcept { return stream_.get(); }
  [[nodiscard]] int device() const noexcept { return device_; }

  /// What is wrong with the memory and the stream that a run was given. If nothing is, the run's work comes after what is on
  /// `stream` now.
  [[nodiscard]] FaultKind fault(const void* gradient, void* stream) {
    const cuda::Place place = cuda::place_of(gradient);
    if (place.kind == cuda::Place::Kind::host || place.kind == cuda::Place::Kind::pinned) return FaultKind::host_memory;
    if (place.device != device_) return FaultKind::other_device;
    if (!cuda::is_stream(stream)) return FaultKind::bad_stream;
    try {  // a stream of another GPU cannot record an event of this one
      const cuda::OnDevice on(device_);
      entered_.record(stream);
    } catch (const Error&) {
      return FaultKind::bad_stream;
    }
    return FaultKind::none;
  }

  /// The work of one run, for which fault() found nothing. However it ends, what comes later on the caller's stream comes after it:
  /// it may still read the gradient.
  class Work {
   public:
    Work(PlanStream& stream, void* caller) : stream_(stream), caller_(caller) { stream_.entered_.hold(stream_.get()); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() {
      try {
        const cuda::OnDevice on(stream_.device_);
        stream_.left_.record(stream_.get());
        stream_.left_.hold(caller_);
      } catch (const Error&) {  // the GPU has failed: whoever uses it next is told
      }
    }

   private:
    PlanStream& stream_;
    void* caller_;
  };

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
  cuda::Event entered_, left_;  // the callers' streams
};

}  // namespace weir::detail
