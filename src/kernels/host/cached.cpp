#include "kernels/host/cached.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <string>

namespace weir::kernels::host {
namespace {

constexpr std::int64_t least = 1 << 20;

/// As Linux tells: what processors say of themselves means a part in one make and the sum over all parts in another.
std::int64_t share_of_third_level() {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index3/";
  std::int64_t kilobytes = 0, processors = 0;
  std::ifstream(folder + "size") >> kilobytes;  // such as 32768K
  std::string map;                              // such as 00000000,0000ffff
  std::ifstream(folder + "shared_cpu_map") >> map;
  std::erase(map, ',');
  for (const char digit : map) processors += std::popcount(static_cast<unsigned>(std::stoi(std::string(1, digit), nullptr, 16)));
  return processors > 0 ? kilobytes * 1024 / processors : 0;
}

}  // namespace

std::int64_t cached_bytes() {
  static const std::int64_t bytes = std::max(least, share_of_third_level() / 8);
  return bytes;
}

}  // namespace weir::kernels::host
