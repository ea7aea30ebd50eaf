// control_groups.hpp: what control groups (cgroups, versions 1 and 2) allow this process, as containers and batch systems set it.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

/// Files in which the system describes control groups. Tests use other folders.
struct GroupFiles {
  std::string self = "/proc/self/cgroup", root = "/sys/fs/cgroup";
};

/// Processor time of a control group, for all its processes together.
struct CpuQuota {
  double processors = 0;    ///< average number of processors that they may use; 0: there is no limit
  std::uint64_t group = 0;  ///< identifies the group that has the limit: processes with the same number share it
};
/// Returns the smallest quota of this process's group and those around it.
[[nodiscard]] CpuQuota cpu_quota(const GroupFiles& files = {});

/// Returns the bytes that the groups still allow: their limits less what is in use and cannot be given back at once. Infinite
/// without a limit.
[[nodiscard]] double room_in_groups(const GroupFiles& files = {});

}  // namespace weir
