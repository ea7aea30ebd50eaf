// driver.hpp: the CUDA driver in this process.
#pragma once

namespace weir::cuda {

/// Returns whether any code in this process has loaded the driver: before that, CUDA owns no pointer.
[[nodiscard]] bool driver_is_loaded();

}  // namespace weir::cuda
