#include "cli/mpi_start.hpp"

#include <weir/mpi.h>

#include <cstdlib>
#include <string_view>

void weir::cli::start_mpi() {
  const char* const setting = std::getenv("WEIR_PROGRESS_THREAD");  // nonsense is for the communicator to say
  const bool threads = setting != nullptr && std::string_view(setting) != "off";
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
}
