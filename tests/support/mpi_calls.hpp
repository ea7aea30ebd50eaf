// mpi_calls.hpp: counts a program's calls of MPI through MPI's profiling interface.
#pragma once

#include <cstdint>

namespace weir::test {

struct MpiCalls {
  std::int64_t messages = 0;       ///< sends and receives posted
  std::int64_t collectives = 0;    ///< all others, including those that make or free something
  std::int64_t communicators = 0;  ///< made and not freed
  std::int64_t windows = 0;        ///< made and not freed

  friend MpiCalls operator-(MpiCalls a, const MpiCalls& b) {
    a.messages -= b.messages;
    a.collectives -= b.collectives;
    a.communicators -= b.communicators;
    a.windows -= b.windows;
    return a;
  }
  friend bool operator==(const MpiCalls&, const MpiCalls&) = default;
};

/// Returns the counts of this process so far.
[[nodiscard]] const MpiCalls& mpi_calls();

}  // namespace weir::test
