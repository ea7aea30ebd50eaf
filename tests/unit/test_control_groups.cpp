// test_control_groups.cpp: the limits of control groups of version 1 and 2, read from files like the kernel's.
#include <cmath>
#include <fstream>

#include "base/control_groups.hpp"
#include "base/memory.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

class Groups {
 public:
  explicit Groups(const std::string& self) { put("self", self); }
  void put(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] GroupFiles files() const { return {folder_.path() + "/self", folder_.path()}; }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("a quota of version 2, the least of a group and those around it") {
  const Groups groups("0::/batch/job 7/task\n");
  CHECK(cpu_quota(groups.files()).processors == 0);
  CHECK(std::isinf(room_in_groups(groups.files())));
  groups.put("batch/job 7/task/cpu.max", "max 100000\n");
  groups.put("batch/job 7/cpu.max", "250000 100000\n");
  groups.put("batch/cpu.max", "800000 100000\n");
  const CpuQuota quota = cpu_quota(groups.files());
  CHECK(quota.processors == 2.5);
  groups.put("self", "0::/batch/job 7/other task\n");
  CHECK(cpu_quota(groups.files()).group == quota.group);
  groups.put("batch/job 8/cpu.max", "250000 100000\n");
  groups.put("self", "0::/batch/job 8\n");
  CHECK(cpu_quota(groups.files()).group != quota.group);
  CHECK(cpu_quota(groups.files()).processors == 2.5);
}

TEST_CASE("a quota of version 1, also where the process sees its group as the root") {
  const Groups groups("12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
  groups.put("cpu/cpu.cfs_quota_us", "-1\n");
  groups.put("cpu/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(groups.files()).processors == 0);
  groups.put("cpu/cpu.cfs_quota_us", "50000\n");
  CHECK(cpu_quota(groups.files()).processors == 0.5);
  groups.put("cpu/docker/abc/cpu.cfs_quota_us", "40000\n");
  groups.put("cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(groups.files()).processors == 0.4);
}

TEST_CASE("room for memory: limits less what is in use and could not be given back") {
  const Groups groups("5:memory:/job\n0::/job\n");
  groups.put("job/memory.max", "1000\n");
  CHECK(room_in_groups(groups.files()) == 1000);
  groups.put("job/memory.current", "700\n");
  groups.put("job/memory.stat", "anon 500\ninactive_file 200\nactive_file 0\n");
  CHECK(room_in_groups(groups.files()) == 500);
  groups.put("memory.max", "max\n");
  groups.put("memory/job/memory.limit_in_bytes", "900\n");
  groups.put("memory/job/memory.usage_in_bytes", "800\n");
  groups.put("memory/job/memory.stat", "inactive_file 3\ntotal_inactive_file 50\n");
  CHECK(room_in_groups(groups.files()) == 150);
  groups.put("memory/job/memory.usage_in_bytes", "2000\n");
  CHECK(room_in_groups(groups.files()) == 0);
}

TEST_CASE("this machine has memory that is available") { CHECK(available_memory() > 0); }

}  // namespace weir::test
