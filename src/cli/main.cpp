// The `weir` command.
#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

#include "base/nearest.hpp"
#include "cli/commands.hpp"

std::string weir::cli::unknown_subcommand(const CLI::App& app, std::span<const char* const> words) {
  if (words.empty() || words[0][0] == '-') return "";
  const std::vector<const CLI::App*> known = app.get_subcommands({});
  if (known.empty()) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : known) {
    if (command->get_name() == words[0]) return unknown_subcommand(*command, words.subspan(1));
    names.push_back(command->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return fmt::format("'{}' is no subcommand: did you mean '{}'? There are {}", words[0], nearest(words[0], views),
                     fmt::join(names, ", "));
}

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
  weir::cli::add_bench_compress(*bench);
  weir::cli::add_bench_overlap(*bench);
  weir::cli::add_bench_plans(*bench);
  weir::cli::add_bench_schedules(*bench);
  weir::cli::add_bench_rows(*bench);
  weir::cli::add_bench_embedding(*bench);
  weir::cli::add_bench_fusion(*bench);
  weir::cli::add_bench_pto(*bench);
  weir::cli::add_bench_adam(*bench);
  weir::cli::add_bench_datacache(*bench);
  weir::cli::add_bench_capi(*bench);
  weir::cli::add_bench_threads(*bench);
  weir::cli::add_bench_checkpoint(*bench);
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
    const std::string unknown = weir::cli::unknown_subcommand(app, {argv + 1, static_cast<std::size_t>(std::max(argc, 1) - 1)});
    if (!unknown.empty()) throw std::runtime_error(unknown);
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    status = error.get_exit_code();
    all_alike = true;
  } catch (const CLI::ParseError& error) {
    status = app.exit(error);
    if (status != 0 && of_files) status = 2;
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
