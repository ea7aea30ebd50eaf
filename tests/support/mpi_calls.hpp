// mpi_calls.hpp: counts what a program asks of MPI, by MPI's own profiling interface.
#pragma once

#include <cstdint>

namespace weir::test {

struct MpiCalls {
  std::int64_t messages = 0;       ///< sends and receives posted
  std::int64_t collectives = 0;    ///< all others, those that make or free something included
  std::int64_t communicators = 0;  ///< made and not freed
  std::int64_t windows = 0;        ///< likewise

  friend MpiCalls operator-(MpiCalls a, const MpiCalls& b) {
    a.messages -= b.messages;
    a.collectives -= b.collectives;
    a.communicators -= b.communicators;
    a.windows -= b.windows;
    return a;
  }
  friend bool operator==(const MpiCalls&, const MpiCalls&) = default;
};

/// So far, by this process.
[[nodiscard]] const MpiCalls& mpi_calls();

}  // namespace weir::test
