// inproc_ranks.hpp: runs a function on P virtual ranks, one thread each, over the in-process transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "support/timeouts.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::test {

struct RankOptions {
  std::uint64_t seed = 0;             ///< message order; 0: as sent
  std::string machine{};              ///< synthetic_machine description; empty: all ranks on one node
  std::vector<std::size_t> places{};  ///< for each rank, the rank of that machine whose place it takes; empty: its own
  InprocFault fault{};
  std::function<std::unique_ptr<InprocCopier>()> make_copier{};  ///< for messages in GPU memory
  Settings settings{.timeout_seconds = 120};
};

/// TEST_PROGRESS_THREAD=1 gives each rank of every test a progress thread.
[[nodiscard]] Settings with_progress_thread(Settings settings);

/// Throws the error of the lowest rank that has failed.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const RankOptions& options = {});

}  // namespace weir::test
