// failing_allocations.hpp: replaces operator new, in all its forms, with one that counts and can be told to fail.
#pragma once

#include <cstdint>

namespace weir::test {

enum class Failing {
  once,  ///< one allocation
  on     ///< that one and all later ones
};

/// While this lives, or until stop(), the calling thread's `nth` operator new (1, 2, ...) fails. Other threads are not affected.
class FailingAllocations {
 public:
  FailingAllocations(std::int64_t nth, Failing how);
  ~FailingAllocations() { stop(); }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  void stop();
  /// Returns whether that allocation has failed.
  [[nodiscard]] bool failed() const;
};

/// Returns the calls of operator new by this thread so far, including those that failed.
[[nodiscard]] std::int64_t allocations_of_this_thread();

}  // namespace weir::test
