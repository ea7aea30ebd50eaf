// memory.hpp: how much memory is available.
#pragma once

namespace weir {

/// Returns the bytes that this process may still take: what the kernel calls available, within what control groups leave. Linux.
[[nodiscard]] double available_memory();

}  // namespace weir
