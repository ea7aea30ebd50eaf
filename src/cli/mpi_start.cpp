#include "cli/mpi_start.hpp"

#include <weir/mpi.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/standard_error.hpp"
#include "cli/command.hpp"

namespace weir::cli {

namespace {

/// Returns false if output was lost, for example because a disk is full.
bool output_is_whole() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  print_error("weir: the output cannot be written: {}\n", std::strerror(errno));
  return false;
}

void no_memory() { print_error("weir: there is not enough memory for this: give smaller sizes, or start fewer ranks on a node\n"); }

}  // namespace

void start_mpi() {
  const char* const setting = std::getenv("WEIR_PROGRESS_THREAD");  // the communicator reports invalid values
  const bool threads = setting != nullptr && std::string_view(setting) != "off";
  detail::start_mpi(threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
}

int run_program(const CommandLine& line, int argc, const char* const* argv, std::optional<int> trouble) {
  int status = 0;
  bool all_alike = false;  // true: all ranks end with this status, and no rank waits for another
  try {
    status = line.run(argc, argv);
  } catch (const ExitWith& end) {
    status = end.status();
    all_alike = true;
  } catch (const Error& error) {
    print_error("weir: {}\n", error.what());
    status = error.status() == WEIR_ERR_ARGUMENT ? wrong_command_line : trouble.value_or(1);
  } catch (const std::bad_alloc&) {
    no_memory();
    status = trouble.value_or(1);
  } catch (const std::length_error&) {  // larger than any memory
    no_memory();
    status = trouble.value_or(1);
  } catch (const std::exception& error) {
    print_error("weir: {}\n", error.what());
    status = trouble.value_or(1);
  }
  if (!output_is_whole() && status == 0) status = trouble.value_or(1);
  int running = 0, finished = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&finished);
  if (running && !finished) {
    if (status != 0 && !all_alike) MPI_Abort(MPI_COMM_WORLD, status);
    try {
      detail::finalise_mpi();
    } catch (const Error& error) {
      print_error("weir: {}\n", error.what());
      status = trouble.value_or(1);
    }
  }
  return status;
}

}  // namespace weir::cli
