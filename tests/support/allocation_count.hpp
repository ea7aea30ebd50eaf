// allocation_count.hpp: replaces operator new by one that counts.
#pragma once

#include <cstdint>

namespace weir::test {
/// Calls of operator new by this thread so far.
[[nodiscard]] std::int64_t allocations_of_this_thread();
/// And by all.
[[nodiscard]] std::int64_t allocations_of_all_threads();
}  // namespace weir::test
