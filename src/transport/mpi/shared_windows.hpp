// shared_windows.hpp: MPI-3 shared-memory windows, one communicator's, kept for reuse: freeing one is collective, and plans are
// destroyed whenever each rank likes.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <vector>

#include "transport/transport.hpp"

namespace weir {

class SharedWindows {
 public:
  /// Collective and blocking among `members` of `comm`; see Transport::share.
  std::unique_ptr<SharedMemory> share(MPI_Comm comm, std::span<const int> members, std::int64_t bytes);
  /// Collective among all that share.
  void free();

 private:
  struct Window {
    MPI_Win handle = MPI_WIN_NULL;
    std::int64_t bytes = 0;
    std::vector<std::byte*> of;  // by member
    bool in_use = false;
  };
  class Lease;

  [[nodiscard]] int pick(std::int64_t bytes) const;
  int allocate(std::int64_t bytes);

  MPI_Comm node_ = MPI_COMM_NULL;
  bool tried_ = false;
  std::shared_ptr<std::vector<Window>> windows_ = std::make_shared<std::vector<Window>>();  // leases may outlive this
};

}  // namespace weir
