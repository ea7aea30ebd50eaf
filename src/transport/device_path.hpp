// device_path.hpp: how messages of CUDA memory travel: straight from it, or staged through pinned host memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/settings.hpp"

namespace weir {

/// `direct`: pointers to CUDA memory may be given to send and receive. `why` is a text that begins with the path.
struct DevicePath {
  bool direct = false;
  std::string why;
};

/// An MPI library's answer to whether it accepts pointers to CUDA memory.
enum class CudaSupport : std::uint8_t { unknown, no, yes };

/// Chooses the path. `library`: its name and version. If the library cannot be asked, messages are staged.
[[nodiscard]] DevicePath choose_device_path(std::string_view library, CudaSupport support, GpuPointers setting);

/// Returns the path that all `ranks`, in rank order, use: direct if it is for all of them; else staged, for the reason of the first
/// rank that stages.
[[nodiscard]] DevicePath agreed_device_path(std::span<const DevicePath> ranks);

}  // namespace weir
