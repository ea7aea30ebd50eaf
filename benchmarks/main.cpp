// The `weir-benchmarks` program.
#include "benchmarks/benchmarks.hpp"
#include "cli/mpi_start.hpp"

int main(int argc, char** argv) {
  weir::cli::CommandLine app("Measure parts of Weir, compared with a reference or a physical limit in the same run");
  app.require_subcommand();
  weir::cli::add_capi(app);
  weir::cli::add_codec(app);
  weir::cli::add_rows(app);
  weir::cli::add_threads(app);
  weir::cli::add_overlap(app);
  weir::cli::add_plans(app);
  weir::cli::add_schedules(app);
  weir::cli::add_adam(app);
  weir::cli::add_pto(app);
  weir::cli::add_start(app);
  return weir::cli::run_program(app, argc, argv);
}
