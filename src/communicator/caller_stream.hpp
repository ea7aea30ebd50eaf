// caller_stream.hpp: the caller's memory and stream in a call of a plan or table in CUDA memory.
#pragma once

#include "communicator/input_error.hpp"
#include "cuda/runtime.hpp"

namespace weir::detail {

/// For one call at a time. Its device is the thread's when it is made. Not there in a build without CUDA.
class CallerStream {
 public:
  /// What is wrong with the call's memory or stream; if nothing is, the place that hold() is about: what is on `stream` now.
  [[nodiscard]] InputError enter(const void* memory, void* stream);
  /// Later work on `own` comes after that place.
  void hold(void* own) const { entered_.hold(own); }
  /// What comes later on the caller's stream comes after what is on `own` now. The next call that uses the GPU reports its failure.
  void leave(void* own) noexcept;

 private:
  int device_ = cuda::current_device();
  void* stream_ = nullptr;
  cuda::Event entered_, left_;
};

}  // namespace weir::detail
