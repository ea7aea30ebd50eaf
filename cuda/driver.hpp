// driver.hpp: the CUDA driver in this process.
#pragma once

namespace weir::cuda {

/// Somebody in this process has loaded it: before that, no pointer is CUDA's.
[[nodiscard]] bool driver_is_loaded();

}  // namespace weir::cuda
