// weir_simulate_fusion: `weir bench fusion` on a simulated machine. Started by smpirun, see README.md. All times are simulated:
// what computes is a simulated GPU, and so is what selects.
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <weir/mpi.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/bench_fusion.hpp"

namespace {

/// All ranks go on at the next multiple of a time that no step takes. Without messages: what SMPI's collectives leave behind slows
/// SimGrid 3.32 down.
void start_together() {
  constexpr double period = 1000;
  sg_actor_sleep_for((std::floor(simgrid_get_clock() / period) + 1) * period - simgrid_get_clock());
}

}  // namespace

int main(int argc, char** argv) {
  weir::cli::FusionOptions options;
  CLI::App app("Weir's schemes of tensor fusion on a simulated machine");
  weir::cli::add_fusion_options(app, options);
  CLI11_PARSE(app, argc, argv);
  std::vector<weir::cli::FusionModel> models = weir::cli::load_models(options.models);
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    bench_fusion(comm, options, std::move(models), {start_together, [](double seconds) { sg_actor_sleep_for(seconds); }});
  }
  MPI_Finalize();
  return 0;
}
