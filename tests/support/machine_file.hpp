// machine_file.hpp: a temporary machine file.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "model/machine.hpp"

namespace weir::test {

class MachineFile {
 public:
  explicit MachineFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("weir_test_machine_" + std::to_string(getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~MachineFile() { std::filesystem::remove(path_); }
  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;
  [[nodiscard]] std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Returns a machine on which computing takes most of the time, so that all sparse algorithms cost about the same.
inline Machine slow_cores() { return with_shared_cores(builtin_machine(), 4); }

}  // namespace weir::test
