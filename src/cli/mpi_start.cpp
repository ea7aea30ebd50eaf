#include "cli/mpi_start.hpp"

#include <fmt/core.h>
#include <weir/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "cli/command.hpp"

namespace weir::cli {

void start_mpi() {
  const char* const setting = std::getenv("WEIR_PROGRESS_THREAD");  // nonsense is for the communicator to say
  const bool threads = setting != nullptr && std::string_view(setting) != "off";
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
}

int run_program(const CommandLine& line, int argc, const char* const* argv, std::optional<int> trouble) {
  int status = 0;
  bool all_alike = false;  // all ranks end with this status, and none waits for another
  try {
    status = line.run(argc, argv);
    if (status != 0) status = trouble.value_or(status);
  } catch (const ExitWith& end) {
    status = end.status();
    all_alike = true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir: {}\n", error.what());
    status = trouble.value_or(1);
  }
  int running = 0, finished = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&finished);
  if (running && !finished) {
    if (status != 0 && !all_alike) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
  }
  return status;
}

}  // namespace weir::cli
