// counted_new.hpp: replaces operator new with one that counts live bytes and can be told to refuse.
#pragma once

#include <cstdint>

namespace weir::test {

/// Returns the bytes that this thread has allocated and not freed.
[[nodiscard]] std::int64_t live_bytes_of_this_thread();

/// While it lives, operator new refuses allocations of this thread above a limit.
class LargestAllocation {
 public:
  explicit LargestAllocation(std::int64_t bytes);
  LargestAllocation(const LargestAllocation&) = delete;
  LargestAllocation& operator=(const LargestAllocation&) = delete;
  ~LargestAllocation();
};

}  // namespace weir::test
