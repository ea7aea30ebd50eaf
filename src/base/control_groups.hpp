// control_groups.hpp: what control groups (cgroups, versions 1 and 2) allow this process, as containers and batch systems set it.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

/// Where the system tells of control groups. Other folders are for tests.
struct GroupFiles {
  std::string self = "/proc/self/cgroup", root = "/sys/fs/cgroup";
};

/// Time on processors, for all processes of a group together.
struct CpuQuota {
  double processors = 0;    ///< as many at a time, in the long run; 0: there is no limit
  std::uint64_t group = 0;  ///< of the group that has it: processes with the same number share it
};
/// Returns the smallest quota of this process's group and those around it.
[[nodiscard]] CpuQuota cpu_quota(const GroupFiles& files = {});

/// Returns the bytes that the groups still allow: their limits less what is in use and could not be given back at once. Infinite
/// without a limit.
[[nodiscard]] double room_in_groups(const GroupFiles& files = {});

}  // namespace weir
