// The `weir` command.
#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <weir/weir.hpp>

#include "base/origin.hpp"
#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"

int main(int argc, char** argv) {
  using namespace weir::cli;
  CommandLine app("Weir: topology-aware sparse collectives");
  app.require_subcommand();
  app.version("weir " + weir::version_text());
  add_info(app);
  Command bench = app.add("bench", "Run a benchmark, which also measures a reference or a physical limit in the same run");
  bench.require_subcommand();
  for (const auto add : {add_bench_select, add_bench_allreduce, add_bench_sum, add_bench_compress, add_bench_embedding,
                         add_bench_fusion, add_bench_datacache, add_bench_checkpoint})
    add(bench);
  for (const auto add : {add_calibrate, add_predict, add_selftest, add_trace, add_checkpoint, add_cache}) add(app);

  // Like diff(1), so that scripts can tell a wrong command line from damaged or differing files.
  const bool of_files = argc > 1 && (argv[1] == std::string_view("checkpoint") || argv[1] == std::string_view("cache"));
  return run_program(app, argc, argv, of_files ? 2 : 1);
}
