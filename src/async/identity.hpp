// identity.hpp: what files about a communicator say of it, so that those of one run are told from those of another.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

struct Identity {
  std::uint64_t run = 0;  ///< the same on all ranks of a communicator, different from run to run
  int communicator = 0;   ///< how many rank 0's process had made before
  int rank = 0, ranks = 1;
  std::string host{};
};

}  // namespace weir
