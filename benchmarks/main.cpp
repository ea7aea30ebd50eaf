// The `weir-benchmarks` program.
#include "benchmarks/benchmarks.hpp"
#include "cli/mpi_start.hpp"

int main(int argc, char** argv) {
  weir::cli::CommandLine app("Measure parts of Weir, compared with a reference or a physical limit in the same run");
  app.require_subcommand();
  using namespace weir::cli;
  for (const auto add : {add_capi, add_codec, add_rows, add_threads, add_overlap, add_plans, add_schedules, add_adam, add_pto,
                         add_start, add_reproducible})
    add(app);
  return weir::cli::run_program(app, argc, argv);
}
