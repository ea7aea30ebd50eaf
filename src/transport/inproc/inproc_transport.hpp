// inproc_transport.hpp: P virtual ranks in one process, one thread each, to test everything without a cluster.
//
// Strict on purpose. A send is done only when its receive has taken it (no buffering). Messages of different peers or tags become
// visible after seeded random delays. A schedule that only works with eager messages therefore hangs here first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/completion.hpp"
#include "transport/transport.hpp"

namespace weir {

struct InprocFault {
  int rank = -1;            ///< this rank goes silent ...
  std::int64_t after = -1;  ///< ... after this many sends: later ones vanish, and it receives nothing more
  bool late = false;        ///< abandoned sends and receives happen all the same, as with MPI
  std::int64_t shared_memory_room = std::int64_t{1} << 40;
  int no_segments_on = -1;                                ///< this rank cannot map shared memory
  std::int64_t pages_of_segment = std::int64_t{1} << 40;  ///< bytes for which a rank can allocate pages, in each segment
  int max_tag = 1 << 30;
};

/// Copies what a memcpy cannot copy, for one rank.
class InprocCopier {
 public:
  virtual ~InprocCopier() = default;
  /// Begins a copy; returns nullptr if the memory is not for this copier. The copier owns the result, and may use it again once it
  /// has been reached.
  virtual Completion* copy(void* to, const void* from, std::int64_t bytes) = 0;
};

/// What the ranks of one job share.
class InprocJob {
 public:
  /// seed 0: messages are visible at once. With copiers, one for each rank, ranks may send from and receive into GPU memory.
  InprocJob(int size, std::uint64_t seed, InprocFault fault = {}, std::function<std::unique_ptr<InprocCopier>()> make_copier = {});
  ~InprocJob();
  /// Returns the transport of one rank, for one thread.
  [[nodiscard]] std::unique_ptr<Transport> transport(int rank);

 private:
  friend class InprocTransport;
  friend class InprocSegment;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weir
