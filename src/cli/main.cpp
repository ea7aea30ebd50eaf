// The `weir` command.
#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <weir/weir.hpp>

#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"

int main(int argc, char** argv) {
  weir::cli::CommandLine app("Weir: topology-aware sparse collectives");
  app.require_subcommand();
  app.version(fmt::format("weir {}.{}.{}", weir::version().major, weir::version().minor, weir::version().patch));
  weir::cli::add_info(app);
  weir::cli::Command bench =
      app.add("bench", "Run a benchmark, which also measures a reference or a physical limit in the same run");
  bench.require_subcommand();
  weir::cli::add_bench_select(bench);
  weir::cli::add_bench_allreduce(bench);
  weir::cli::add_bench_compress(bench);
  weir::cli::add_bench_embedding(bench);
  weir::cli::add_bench_fusion(bench);
  weir::cli::add_bench_datacache(bench);
  weir::cli::add_bench_checkpoint(bench);
  weir::cli::add_calibrate(app);
  weir::cli::add_predict(app);
  weir::cli::add_selftest(app);
  weir::cli::add_trace(app);
  weir::cli::add_checkpoint(app);
  weir::cli::add_cache(app);

  // Like diff(1), so that scripts can tell a wrong command line from damaged or differing files.
  const bool of_files = argc > 1 && (argv[1] == std::string_view("checkpoint") || argv[1] == std::string_view("cache"));
  return weir::cli::run_program(app, argc, argv, of_files ? std::optional(2) : std::nullopt);
}
