#include "transport/device_path.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir {

DevicePath choose_device_path(std::string_view library, CudaSupport support, GpuPointers setting) {
  if (setting == GpuPointers::off) return {false, "staged through pinned memory: WEIR_CUDA_AWARE_MPI is off"};
  if (setting == GpuPointers::on) return {true, fmt::format("direct: WEIR_CUDA_AWARE_MPI is on for {}", library)};
  switch (support) {
    case CudaSupport::yes:
      return {true, fmt::format("direct: {} takes pointers to CUDA memory", library)};
    case CudaSupport::no:
      return {false, fmt::format("staged through pinned memory: {} was built or started without CUDA", library)};
    default:
      return {false, fmt::format("staged through pinned memory: {} cannot be asked whether it takes pointers to CUDA memory; set "
                                 "WEIR_CUDA_AWARE_MPI=on if it does",
                                 library)};
  }
}

DevicePath agreed_device_path(std::span<const DevicePath> ranks) {
  const auto staged = std::find_if(ranks.begin(), ranks.end(), [](const DevicePath& path) { return !path.direct; });
  if (staged == ranks.end()) return ranks.front();
  const bool alike = std::none_of(ranks.begin(), ranks.end(), [](const DevicePath& path) { return path.direct; });
  return {false, alike ? staged->why : fmt::format("{} (on rank {})", staged->why, staged - ranks.begin())};
}

}  // namespace weir
