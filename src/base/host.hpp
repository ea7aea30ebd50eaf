// host.hpp: the names by which processes find out whether they are on the same machine.
#pragma once

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

namespace weir {

[[nodiscard]] inline std::string host_name() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0 || buffer[0] == '\0') return "localhost";
  return buffer.data();
}

/// Returns what the kernel has drawn when it started: the same in all containers of a machine.
[[nodiscard]] inline std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace weir
