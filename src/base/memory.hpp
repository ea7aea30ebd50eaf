// memory.hpp: how much memory there is to be had.
#pragma once

namespace weir {

/// Bytes that processes of this host may still take: what the kernel calls available, within the limits of the control groups
/// (version 2) that this process is in. Linux.
[[nodiscard]] double available_memory();

}  // namespace weir
