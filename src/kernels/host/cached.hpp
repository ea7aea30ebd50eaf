// cached.hpp: how large an array the caches keep.
#pragma once

#include <cstdint>

namespace weir::kernels::host {

/// Returns the bytes of an array that are still in the caches when a run returns to it. This is an eighth of the processor's share
/// of the third-level cache, since a run passes over residuals meanwhile, and other ranks over theirs. If that is below 1 MiB,
/// about a second-level cache, or unknown, it is 1 MiB. For larger arrays, storing around the caches pays. For arrays in the caches
/// it takes three to four times as long on a Sapphire Rapids, whose third-level cache holds hundreds of megabytes. There, both take
/// the same time for arrays of 32 MB (apply of weir bench allreduce).
[[nodiscard]] std::int64_t cached_bytes() noexcept;

/// Sets cached_bytes() from now on, in all threads. For tests, which would otherwise need arrays as large as caches.
void set_cached_bytes(std::int64_t bytes) noexcept;

}  // namespace weir::kernels::host
