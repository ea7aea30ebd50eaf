#include "cli/mpi_start.hpp"

#include <weir/mpi.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>

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

constexpr const char* no_memory = "there is not enough memory for this: give smaller sizes, or start fewer ranks on a node";

}  // namespace

void start_mpi() {
  const char* const setting = std::getenv("WEIR_PROGRESS_THREAD");  // the communicator reports invalid values
  const bool threads = setting != nullptr && std::string_view(setting) != "off";
  detail::start_mpi(threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
}

int run_program(const CommandLine& line, int argc, const char* const* argv, int trouble) {
  int status = 0;
  bool all_alike = false;  // true: all ranks end with this status, and no rank waits for another
  const auto fails = [&](const char* why, int with) {
    print_error("weir: {}\n", why);
    status = with;
  };
  try {
    status = line.run(argc, argv);
  } catch (const ExitWith& end) {
    status = end.status();
    all_alike = true;
  } catch (const Error& error) {
    fails(error.what(), error.status() == WEIR_ERR_ARGUMENT ? wrong_command_line : trouble);
  } catch (const std::bad_alloc&) {
    fails(no_memory, trouble);
  } catch (const std::length_error&) {  // larger than any memory
    fails(no_memory, trouble);
  } catch (const std::exception& error) {
    fails(error.what(), trouble);
  }
  if (!output_is_whole() && status == 0) status = trouble;
  int running = 0, finished = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&finished);
  if (running && !finished) {
    if (status != 0 && !all_alike) MPI_Abort(MPI_COMM_WORLD, status);
    try {
      detail::finalise_mpi();
    } catch (const Error& error) {
      fails(error.what(), trouble);
    }
  }
  return status;
}

}  // namespace weir::cli
