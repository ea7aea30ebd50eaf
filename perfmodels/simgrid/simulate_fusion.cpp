// weir_simulate_fusion: runs `weir bench fusion` on a simulated machine. Start it with smpirun; see README.md. All times are
// simulated. A simulated GPU computes and selects.
#include <mpi.h>
#include <simgrid/actor.h>
#include <weir/mpi.h>

#include "cli/bench_fusion.hpp"
#include "cli/command.hpp"
#include "start_together.hpp"

int main(int argc, char** argv) {
  weir::cli::FusionOptions options;
  weir::cli::CommandLine app("Weir's schemes of tensor fusion on a simulated machine");
  weir::cli::add_fusion_options(app, options);
  if (const int status = app.run(argc, argv); status != 0) return status;
  std::vector<weir::cli::FusionModel> models = weir::cli::load_models(options.models);
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    bench_fusion(comm, options, std::move(models), {start_together, [](double seconds) { sg_actor_sleep_for(seconds); }});
  }
  MPI_Finalize();
  return 0;
}
