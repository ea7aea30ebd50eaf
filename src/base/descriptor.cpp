#include "base/descriptor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weir {
namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 30;

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

bool write_at(const Descriptor& file, std::int64_t address, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(*file, bytes.data(), std::min(bytes.size(), most_at_once), address);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    address += done;
  }
  return true;
}

std::size_t read_up_to(const Descriptor& file, std::int64_t address, std::span<std::byte> bytes) {
  std::size_t read = 0;
  while (read < bytes.size()) {
    const std::span<std::byte> rest = bytes.subspan(read, std::min(bytes.size() - read, most_at_once));
    const ssize_t done = ::pread(*file, rest.data(), rest.size(), address + static_cast<std::int64_t>(read));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = 0;
    if (done <= 0) break;
    read += static_cast<std::size_t>(done);
  }
  return read;
}

}  // namespace weir
