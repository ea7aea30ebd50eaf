#include "kernels/host/cached.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <span>
#include <string_view>

namespace weir::kernels::host {
namespace {

constexpr std::int64_t least = 1 << 20;

/// Reads the beginning of a file into `buffer` and returns it, or an empty text if the file cannot be opened. Allocates nothing,
/// since allocations can fail: the first caller may be a run.
std::string_view read_into(std::span<char> buffer, const char* path) noexcept {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t size = read(file, buffer.data(), buffer.size());
  close(file);
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::int64_t number(std::string_view text, int base) noexcept {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

/// Asks Linux: what processors report is per part for one vendor, and the sum over all parts for another.
std::int64_t share_of_third_level() noexcept {
  char buffer[4096];
  const std::int64_t kilobytes = number(read_into(buffer, "/sys/devices/system/cpu/cpu0/cache/index3/size"), 10);  // 32768K
  std::int64_t processors = 0;
  for (const char& digit : read_into(buffer, "/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_map"))  // 00000000,0000ffff
    processors += std::popcount(static_cast<std::uint64_t>(number({&digit, 1}, 16)));
  return processors > 0 ? kilobytes * 1024 / processors : 0;
}

std::atomic<std::int64_t>& limit() noexcept {
  static std::atomic<std::int64_t> bytes = std::max(least, share_of_third_level() / 8);
  return bytes;
}

}  // namespace

std::int64_t cached_bytes() noexcept { return limit().load(std::memory_order_relaxed); }
void set_cached_bytes(std::int64_t bytes) noexcept { limit().store(bytes, std::memory_order_relaxed); }

}  // namespace weir::kernels::host
