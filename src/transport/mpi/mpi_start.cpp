// Starts and ends MPI for processes of any launcher, and of none.
#include <weir/mpi.h>

#include <string_view>

#include "base/error.hpp"
#include "base/lost_rank.hpp"
#include "base/settings.hpp"
#include "bootstrap/job.hpp"
#include "transport/mpi/mpi_library.hpp"

namespace weir {
namespace {

void require_success(int code, const char* call) {
  if (code != MPI_SUCCESS) fail(WEIR_ERR_TRANSPORT, "{} failed with code {}", call, code);
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
  if (launch.starter != bootstrap::Starter::variables) {
    if (launch.within) bootstrap::forget_launchers();
    initialise(thread_level);
    return true;
  }
  if (std::string_view(mpi_family()) != "MPICH") {
    fail(WEIR_ERR_UNSUPPORTED,
         "RANK and WORLD_SIZE say that this is rank {} of {}, and {} can only be started by its own launcher: start the program "
         "with "
         "mpirun or srun --mpi=pmix, or use the Weir that was built for MPICH, which torchrun can start",
         launch.rank, launch.size, mpi_family());
  }
  // Never destroyed: MPI uses it until the process ends.
  auto* const job = new bootstrap::Job(launch, read_settings());
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
