// ranges.hpp: named time ranges for NVIDIA's profilers (NVTX), which show a run's stages on the timeline of Nsight Systems. Without
// CUDA or a profiler they do nothing.
#pragma once

#include <cstdint>

namespace weir::cuda {

/// Begins a range, and returns its number; 0: there is nothing to end. `name` is a string literal. Ranges may overlap. Any thread may
/// call it.
[[nodiscard]] std::uint64_t begin_range(const char* name) noexcept;
void end_range(std::uint64_t range) noexcept;

}  // namespace weir::cuda
