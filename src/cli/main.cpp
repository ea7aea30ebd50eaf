// The `weir` command.
#include <fmt/core.h>
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <string_view>
#include <weir/weir.hpp>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
  weir::cli::CommandLine app("Weir: topology-aware sparse collectives");
  app.require_subcommand();
  app.version(fmt::format("weir {}.{}.{}", weir::version().major, weir::version().minor, weir::version().patch));
  weir::cli::add_info(app);
  weir::cli::Command bench = app.add("bench", "Measure, always against a peer or a physical limit in the same run");
  bench.require_subcommand();
  weir::cli::add_bench_select(bench);
  weir::cli::add_bench_allreduce(bench);
  weir::cli::add_bench_codec(bench);
  weir::cli::add_bench_compress(bench);
  weir::cli::add_bench_overlap(bench);
  weir::cli::add_bench_plans(bench);
  weir::cli::add_bench_schedules(bench);
  weir::cli::add_bench_rows(bench);
  weir::cli::add_bench_embedding(bench);
  weir::cli::add_bench_fusion(bench);
  weir::cli::add_bench_pto(bench);
  weir::cli::add_bench_adam(bench);
  weir::cli::add_bench_datacache(bench);
  weir::cli::add_bench_capi(bench);
  weir::cli::add_bench_threads(bench);
  weir::cli::add_bench_checkpoint(bench);
  weir::cli::add_calibrate(app);
  weir::cli::add_predict(app);
  weir::cli::add_selftest(app);
  weir::cli::add_trace(app);
  weir::cli::add_checkpoint(app);
  weir::cli::add_cache(app);

  // As diff(1): scripts tell a command line that is wrong from files that are.
  const bool of_files = argc > 1 && (argv[1] == std::string_view("checkpoint") || argv[1] == std::string_view("cache"));
  int status = 0;
  bool all_alike = false;  // all ranks end with this status, and none waits for another
  try {
    status = app.run(argc, argv);
    if (status != 0 && of_files) status = 2;
  } catch (const weir::cli::ExitWith& error) {
    status = error.status();
    all_alike = true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir: {}\n", error.what());
    status = of_files ? 2 : 1;
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
