// ranges.hpp: named ranges of time for NVIDIA's profilers (NVTX): what a run does, on the timeline of Nsight Systems. Without CUDA,
// and where no profiler listens, nothing.
#pragma once

#include <cstdint>

namespace weir::cuda {

/// `name` is a string literal. Ranges may overlap. Any thread.
[[nodiscard]] std::uint64_t begin_range(const char* name) noexcept;
void end_range(std::uint64_t range) noexcept;

}  // namespace weir::cuda
