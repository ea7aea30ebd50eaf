// The `weir` command.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <weir/weir.hpp>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app("Weir: topology-aware sparse collectives");
  app.require_subcommand(1);
  app.set_version_flag("--version",
                       fmt::format("weir {}.{}.{}", weir::version().major, weir::version().minor, weir::version().patch));
  weir::cli::add_info(app);
  CLI::App* bench = app.add_subcommand("bench", "Measure, always against a peer or a physical limit in the same run");
  bench->require_subcommand(1);
  weir::cli::add_bench_select(*bench);
  weir::cli::add_bench_allreduce(*bench);
  weir::cli::add_bench_codec(*bench);
  weir::cli::add_bench_overlap(*bench);
  weir::cli::add_bench_rows(*bench);
  weir::cli::add_bench_embedding(*bench);
  weir::cli::add_calibrate(app);
  weir::cli::add_predict(app);
  weir::cli::add_trace(app);

  int status = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir: {}\n", error.what());
    status = 1;
  }
  int running = 0, finished = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&finished);
  if (running && !finished) {
    if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
  }
  return status;
}
