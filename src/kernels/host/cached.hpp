// cached.hpp: how much of an array the caches keep.
#pragma once

#include <cstdint>

namespace weir::kernels::host {

/// Bytes of an array that are still in the caches when a run comes back to it: an eighth of the processor's share of the
/// third-level cache, since a run passes over residuals meanwhile, and other ranks pass over theirs; 1 MiB, about a second-level
/// cache, where that is less or unknown. Storing around the caches pays beyond. What lies in them takes three to four times as long
/// that way on a Sapphire Rapids, whose third-level cache holds hundreds of megabytes; there, both take the same time for arrays of
/// 32 MB (apply of weir bench allreduce).
[[nodiscard]] std::int64_t cached_bytes() noexcept;

/// From now on, in all threads: for tests, which would need arrays as large as caches.
void set_cached_bytes(std::int64_t bytes) noexcept;

}  // namespace weir::kernels::host
