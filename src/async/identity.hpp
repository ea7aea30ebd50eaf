// identity.hpp: what files about a communicator say of it, so that those of one run are told from those of another.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

struct Identity {
  std::uint64_t run = 0;  ///< the same on all ranks of a communicator, different from run to run
  int communicator = 0;   ///< its number: 0 for a program's first, and no other's in the job
  int rank = 0, ranks = 1;
  std::string host{};

  /// This rank's file of a kind: "FOLDER/weir-trace.c0.rank3.json".
  [[nodiscard]] std::string file(const std::string& folder, const std::string& kind, const std::string& extension) const {
    return folder + "/" + kind + ".c" + std::to_string(communicator) + ".rank" + std::to_string(rank) + "." + extension;
  }
};

}  // namespace weir
