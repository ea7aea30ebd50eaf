// identity.hpp: what files about a communicator say of it, so that files of different runs can be told apart.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace weir {

struct Identity {
  std::uint64_t run = 0;  ///< the same on all ranks of a communicator, different from run to run
  int communicator = 0;   ///< its number: 0 for a program's first; unique in the job
  int rank = 0, ranks = 1;
  std::string host{};
  std::string job{};  ///< the scheduler's id; empty without one

  /// Returns a name that no other run has: "4711-0a1b2c3d", without a scheduler "0a1b2c3d".
  [[nodiscard]] std::string name() const {
    return fmt::format("{}{}{:08x}", job, job.empty() ? "" : "-", static_cast<std::uint32_t>(run));
  }
  /// Returns the path of this rank's file of a kind: "FOLDER/weir-trace.4711-0a1b2c3d.c0.rank3.json".
  [[nodiscard]] std::string file(const std::string& folder, const std::string& kind, const std::string& extension) const {
    return fmt::format("{}/{}.{}.c{}.rank{}.{}", folder, kind, name(), communicator, rank, extension);
  }
};

}  // namespace weir
