#include "base/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/control_groups.hpp"

namespace weir {
namespace {

double available_on_host() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("MemAvailable:")) return std::stod(line.substr(13)) * 1024;
  }
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

double available_memory() { return std::min(available_on_host(), room_in_groups()); }

}  // namespace weir
