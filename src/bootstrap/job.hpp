// job.hpp: starts MPI for processes that no launcher of MPI has started.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/settings.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/pmi.hpp"
#include "bootstrap/server.hpp"

namespace weir::bootstrap {

/// This process's part in a job of Starter::variables. Lives until the process ends.
class Job {
 public:
  /// Collective over the processes of the job: waits until all have come, at most settings.timeout_seconds. Throws the same error
  /// in all that have come if a process does not come (WEIR_ERR_TIMEOUT), or if their sizes or versions differ (WEIR_ERR_SETTING).
  Job(const Launch& launch, const Settings& settings);

  /// Sets environment variables for MPI_Init, and removes those of a launcher that has started this process's launcher.
  /// `library_version`: by MPI_Get_library_version.
  void before_init(std::string_view library_version);
  /// Removes them again, so that programs that this one starts do not take themselves for ranks. Call it when MPI_Init has
  /// returned.
  void after_init();
  /// Returns how many ranks this node has at least.
  [[nodiscard]] int least_ranks_here() const { return one_node_ ? size_ : 1; }

 private:
  void join(const Launch& launch, const Settings& settings);
  [[noreturn]] void refuse(std::string_view line);
  void finish() noexcept;

  int rank_, size_;
  std::string interface_;  // that leads to the other ranks; empty on one node
  bool interface_chosen_ = false;
  bool one_node_ = false;
  bool only_tcp_ = false;  // connects the nodes, of which there are several
  int connections_ = 1;
  std::unique_ptr<Server> server_;  // of rank 0
  std::unique_ptr<Relay> relay_;
};

}  // namespace weir::bootstrap
