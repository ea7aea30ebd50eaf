// caller_stream.hpp: the caller's memory and stream in a call of a plan or table in CUDA memory.
#pragma once

#include "communicator/caller_memory.hpp"
#include "cuda/runtime.hpp"

namespace weir::detail {

/// The caller's stream during one call at a time. Its device is the thread's when it is constructed. Only in builds with CUDA.
class CallerStream {
 public:
  /// Returns what is wrong with the call's memory or stream. If nothing is, marks the end of the work on `stream` for hold().
  [[nodiscard]] InputError enter(const void* memory, void* stream);
  /// Makes later work on `own` wait for the work that enter() marked.
  void hold(void* own) const { entered_.hold(own); }
  /// Makes later work on the caller's stream wait for the work on `own` so far. If the GPU has failed, the next call that uses it
  /// reports that.
  void leave(void* own) noexcept;

 private:
  int device_ = cuda::current_device();
  void* stream_ = nullptr;
  cuda::Event entered_, left_;
};

/// The caller of a plan or table whose work is on the stream `own`.
class DeviceCaller final : public CallerMemory {
 public:
  explicit DeviceCaller(void* own) : own_(own) {}
  InputError enter(const void* array, void* stream) override { return caller_.enter(array, stream); }
  void begin() override { caller_.hold(own_); }
  void end() noexcept override { caller_.leave(own_); }

 private:
  void* own_;
  CallerStream caller_;
};

}  // namespace weir::detail
