// failing_allocations.hpp: replaces operator new, in all its forms, by one that counts and can be told to fail.
#pragma once

#include <cstdint>

namespace weir::test {

enum class Failing {
  once,  ///< one allocation
  on     ///< that one and all later ones
};

/// While this lives, or until stop(), the calling thread's `nth` operator new (1, 2, ...) has no memory to give. Other threads
/// have.
class FailingAllocations {
 public:
  FailingAllocations(std::int64_t nth, Failing how);
  ~FailingAllocations() { stop(); }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  void stop();
  /// Whether it has come to that.
  [[nodiscard]] bool failed() const;
};

/// Calls of operator new by this thread so far, those that failed included.
[[nodiscard]] std::int64_t allocations_of_this_thread();

}  // namespace weir::test
