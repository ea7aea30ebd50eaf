#include "base/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace weir {
namespace {

double available_on_host() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("MemAvailable:")) return std::stod(line.substr(13)) * 1024;
  }
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// The least of a control group and those around it.
double limit_of_groups() {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      double limit = 0;
      if (std::ifstream(std::filesystem::path("/sys/fs/cgroup") / group / "memory.max") >> limit) least = std::min(least, limit);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace

double available_memory() { return std::min(available_on_host(), limit_of_groups()); }

}  // namespace weir
