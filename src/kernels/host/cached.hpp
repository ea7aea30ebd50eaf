// cached.hpp: how much of an array the caches keep.
#pragma once

#include <cstdint>

namespace weir::kernels::host {

/// Bytes of an array that are still in the caches when the same processor comes back to it: half of its share of the third-level
/// cache, and 1 MiB, about a second-level cache, where that is less or unknown. Storing around the caches pays beyond: less than
/// that, it takes 5 times as long on a Sapphire Rapids, whose third-level cache holds hundreds of megabytes.
[[nodiscard]] std::int64_t cached_bytes();

}  // namespace weir::kernels::host
