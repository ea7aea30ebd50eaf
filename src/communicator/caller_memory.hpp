// caller_memory.hpp: the caller's array and stream in one kind of call of a plan or table.
#pragma once

#include "communicator/input_error.hpp"

namespace weir::detail {

/// Checks what the caller gives, and orders the work on it relative to the caller's stream.
class CallerMemory {
 public:
  virtual ~CallerMemory() = default;
  /// Returns what is wrong with the array or the stream of a call.
  [[nodiscard]] virtual InputError enter(const void* array, void* stream) = 0;
  /// Makes later work of the plan or table wait for what was on the stream at enter(), which must have found nothing wrong.
  virtual void begin() {}
  /// Makes what comes later on the stream wait for the work of the plan or table so far.
  virtual void end() noexcept {}
};

/// Host memory has no stream.
class HostCaller final : public CallerMemory {
 public:
  InputError enter(const void* array, void* stream) override { return pointers_.error_of(array, stream); }

 private:
  HostPointers pointers_;
};

/// A scope for work on the caller's array. At its end, however that comes, the caller's stream waits for the work, which may still
/// read the array.
class CallerWork {
 public:
  explicit CallerWork(CallerMemory& caller) : caller_(caller) { caller_.begin(); }
  CallerWork(const CallerWork&) = delete;
  CallerWork& operator=(const CallerWork&) = delete;
  ~CallerWork() { caller_.end(); }

 private:
  CallerMemory& caller_;
};

}  // namespace weir::detail
