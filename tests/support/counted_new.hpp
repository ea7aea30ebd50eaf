// counted_new.hpp: replaces operator new by one that knows how much there is, and can be told to refuse.
#pragma once

#include <cstdint>

namespace weir::test {

/// Bytes that this thread has asked for and not given back.
[[nodiscard]] std::int64_t live_bytes_of_this_thread();

/// While it lives, operator new refuses this thread more than so many bytes at once.
class LargestAllocation {
 public:
  explicit LargestAllocation(std::int64_t bytes);
  LargestAllocation(const LargestAllocation&) = delete;
  LargestAllocation& operator=(const LargestAllocation&) = delete;
  ~LargestAllocation();
};

}  // namespace weir::test
