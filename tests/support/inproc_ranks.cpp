#include "support/inproc_ranks.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "topology/topology.hpp"

namespace weir::test {

Settings with_progress_thread(Settings settings) {
  const char* const wanted = std::getenv("TEST_PROGRESS_THREAD");
  if (wanted != nullptr && *wanted == '1') settings.progress_thread = ProgressThreadSetting::anywhere;
  return settings;
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const RankOptions& options) {
  InprocJob job(ranks, options.seed, options.fault, options.make_copier);
  std::vector<Location> machine(static_cast<std::size_t>(ranks));
  if (!options.machine.empty()) machine = synthetic_machine(options.machine);
  if (!options.places.empty()) {
    const std::vector<Location> ordered = machine;
    for (std::size_t rank = 0; rank < machine.size(); ++rank) machine[rank] = ordered[options.places[rank]];
  }
  const Settings settings = with_progress_thread(options.settings);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) transports.push_back(job.transport(rank));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      try {
        Communicator comm(detail::make_communicator(std::move(transports[i]), machine[i], settings));
        body(comm);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace weir::test
