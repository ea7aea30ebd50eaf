// device_path.hpp: how messages of CUDA memory travel: straight from it, or staged through pinned host memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/settings.hpp"

namespace weir {

/// `direct`: pointers to CUDA memory may be given to send and receive. `why`, a text, begins with the path.
struct DevicePath {
  bool direct = false;
  std::string why;
};

/// What an MPI library says when asked whether it takes pointers to CUDA memory.
enum class CudaSupport : std::uint8_t { unknown, no, yes };

/// `library`: its name and version. Where it cannot be asked, messages are staged.
[[nodiscard]] DevicePath choose_device_path(std::string_view library, CudaSupport support, GpuPointers setting);

/// The same for every rank: direct where that holds for all of `ranks`, in rank order; else staged, for the reason of the first of
/// the others.
[[nodiscard]] DevicePath agreed_device_path(std::span<const DevicePath> ranks);

}  // namespace weir
