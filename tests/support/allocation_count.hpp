// allocation_count.hpp: replaces operator new with one that counts.
#pragma once

#include <cstdint>

namespace weir::test {
/// Returns the calls of operator new by this thread so far.
[[nodiscard]] std::int64_t allocations_of_this_thread();
/// Returns the calls by all threads.
[[nodiscard]] std::int64_t allocations_of_all_threads();
}  // namespace weir::test
