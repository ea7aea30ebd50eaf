// Starts and ends MPI for processes of any launcher, and of none.
#include <sys/statvfs.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/lost_rank.hpp"
#include "base/settings.hpp"
#include "bootstrap/job.hpp"
#include "transport/mpi/mpi_library.hpp"

namespace weir {
namespace {

void require_success(int code, const char* call) {
  if (code != MPI_SUCCESS) fail(WEIR_ERR_TRANSPORT, "{} failed with code {}", call, code);
}

/// Returns the variable's number; 1 if it is not set.
int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::max(std::atoi(text), 1) : 1;
}

/// Warns if MPICH may end the processes of this node in MPI_Init for want of shared memory: its own text does not say so, or a
/// signal ends them.
void warn_of_little_shared_memory(int ranks) {
  constexpr double each = 6 << 20;  // MPICH 5.0 takes 5.2 MiB, and earlier ones less
  const char* const folder = "/dev/shm";
  struct statvfs state {};
  const bool usable = statvfs(folder, &state) == 0 && (state.f_flag & ST_RDONLY) == 0 && access(folder, W_OK) == 0;
  const double block = static_cast<double>(state.f_frsize);
  const double size = block * static_cast<double>(state.f_blocks), room = block * static_cast<double>(state.f_bavail);
  if (usable && size >= each * ranks && room >= each) return;
  const std::string what = usable ? fmt::format("has {:.0f} MiB, of which {:.0f} MiB are free", size / (1 << 20), room / (1 << 20))
                                  : std::string("is missing or cannot be written to");
  log(LogLevel::warn, LogLevel::warn,
      "{} {}; MPICH takes up to 6 MiB there for each rank, and this node has at least {}: if MPI_Init fails, mount more, or "
      "start the container with --shm-size=2g",
      folder, what, ranks);
}

void initialise(int thread_level) {
  int provided = MPI_THREAD_SINGLE;
  require_success(MPI_Init_thread(nullptr, nullptr, thread_level, &provided), "MPI_Init_thread");
}

}  // namespace

bool detail::start_mpi(int thread_level) {
  check_mpi_library();
  int done = 0;
  MPI_Finalized(&done);
  if (done) fail(WEIR_ERR_STATE, "MPI has been finalised, and cannot be initialised again");
  MPI_Initialized(&done);
  if (done) return false;
  const bootstrap::Launch launch = bootstrap::read_launch();
  const bool mpich = std::string_view(mpi_family()) == "MPICH";
  const char* const local_rank = std::getenv(launch.starter == bootstrap::Starter::variables ? "LOCAL_RANK" : "MPI_LOCALRANKID");
  const bool warns = mpich && (local_rank == nullptr || std::string_view(local_rank) == "0");
  if (launch.starter != bootstrap::Starter::variables) {
    if (warns) warn_of_little_shared_memory(number_in("MPI_LOCALNRANKS"));
    // MPICH 5 ends a process of Open MPI's launcher in MPI_Init.
    if (const std::string other = mpich ? other_launcher() : ""; !other.empty())
      log(LogLevel::warn, LogLevel::warn, "if MPI_Init fails: {}", other);
    if (launch.within) bootstrap::forget_launchers();
    initialise(thread_level);
    return true;
  }
  if (!mpich) {
    fail(WEIR_ERR_UNSUPPORTED,
         "RANK and WORLD_SIZE say that this is rank {} of {}, and {} can only be started by its own launcher: start the program "
         "with "
         "mpirun or srun --mpi=pmix, or use the Weir that was built for MPICH, which torchrun can start",
         launch.rank, launch.size, mpi_family());
  }
  // Never destroyed: MPI uses it until the process ends.
  auto* const job = new bootstrap::Job(launch, read_settings());
  if (warns) warn_of_little_shared_memory(std::max(number_in("LOCAL_WORLD_SIZE"), job->least_ranks_here()));
  job->before_init(mpi_library_version());
  initialise(thread_level);
  job->after_init();
  return true;
}

void detail::finalise_mpi() {
  if (const char* const lost = lost_rank())
    fail(WEIR_ERR_STATE, "MPI cannot be finalised, because {}: end the process without", lost);
  require_success(MPI_Finalize(), "MPI_Finalize");
}

const char* detail::lost_rank() noexcept { return weir::lost_rank(); }

}  // namespace weir
