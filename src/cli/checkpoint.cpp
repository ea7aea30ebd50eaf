// weir checkpoint: shows, compares and reshards checkpoint files, without MPI.
#include <fmt/core.h>

#include <functional>
#include <weir/weir.hpp>

#include "base/standard_error.hpp"
#include "cli/checkpoint_files.hpp"
#include "cli/commands.hpp"

namespace weir::cli {
namespace {

/// Ends a subcommand. CLI11 passes the status on, and prints nothing of its own. The status for damaged files is `damaged`; that of
/// any other error is 2.
void end_with(const std::function<int()>& run, int damaged = status_damaged) {
  int status = status_trouble;
  try {
    status = run();
  } catch (const Error& error) {
    print_error("weir: {}\n", error.what());
    status = error.status() == WEIR_ERR_FILE ? damaged : status_trouble;
  } catch (const std::exception& error) {
    print_error("weir: {}\n", error.what());
  }
  if (status != 0) throw ExitWith(status);
}

void add_json(Command& command, std::string& json) {
  command.option("--json", json, "also write it to this file; -: to stdout, and nothing else");
}

}  // namespace

void add_checkpoint(Command& app) {
  Command group = app.add("checkpoint", "Files of checkpoints: list, show, verify, compare, divide among other ranks; without MPI");
  group.require_subcommand();
  group.footer("Status: 0; 1 where a file is damaged; 2 where the command line is wrong, or something else is in the way.");

  struct Options {
    std::string a, b, json;
    std::vector<std::string> paths;
    Resharding resharding;
    bool reseals = false;
  };
  auto options = std::make_shared<Options>();
  Command command = group.add("ls", "List the checkpoints of a folder");
  command.footer(
      "Step, time of writing, ranks, nodes, run and size of each file, whether its seal holds, which is the newest by the "
      "manifest,\n"
      "and what interrupted saves have left. Nothing is changed.");
  command.option("folder", options->a, "of a run's checkpoints").required().existing_folder();
  add_json(command, options->json);
  command.examples({"weir checkpoint ls checkpoints"});
  command.action([options] { end_with([&] { return list_checkpoints(options->a, options->json); }); });

  options = std::make_shared<Options>();
  command = group.add("show", "Show what a file holds: values, configurations, datasets");
  command.option("file", options->a, "a checkpoint").required().existing_file();
  add_json(command, options->json);
  command.examples({"weir checkpoint show checkpoints/checkpoint-300.h5"});
  command.action([options] { end_with([&] { return show_checkpoint(options->a, options->json); }); });

  options = std::make_shared<Options>();
  command = group.add("verify", "Read every byte of files, and hold it against its checksum");
  command.option("path", options->paths, "files, and folders whose files are meant").required().existing_path();
  command.flag(
      "--reseal", options->reseals,
      "of files that another program, such as h5repack, has written anew: check every chunk, and seal the file as it is now");
  command.examples({"weir checkpoint verify checkpoints"});
  command.action([options] { end_with([&] { return verify_checkpoints(options->paths, options->reseals); }); });

  options = std::make_shared<Options>();
  command = group.add("diff", "Compare two files");
  command.footer(
      "Attributes, values, configurations, datasets, and for each rank the number of differing elements and the largest\n"
      "difference. Time of writing, version and compression are not compared.\n"
      "Status: 0 where nothing differs, 1 where something does, 2 where a file cannot be read.");
  command.option("first", options->a, "a checkpoint").required().existing_file();
  command.option("second", options->b, "another one").required().existing_file();
  command.examples({"weir checkpoint diff a.h5 b.h5"});
  command.action([options] { end_with([&] { return diff_checkpoints(options->a, options->b); }, status_trouble); });

  options = std::make_shared<Options>();
  Resharding& resharding = options->resharding;
  command = group.add("reshard", "Write the file that a job of other ranks would have");
  command.footer(
      "That job restores IN and saves at once. Blocks are divided evenly; local arrays stay with the ranks that there still are.\n"
      "Needs the memory of all its ranks in one process: plans, tables, optimizers and arrays, and twice again what of them is "
      "saved.\n"
      "A job that restores IN itself comes to the same, and needs no such file.");
  command.option("in", resharding.in, "a checkpoint").required().existing_file();
  command.option("out", resharding.out, "the file to write").required();
  command.option("--ranks", resharding.ranks, "of the job that will restore it").required().between(1, 4096).without_default();
  command.option("--ranks-per-node", resharding.per_node, "ranks of a node; default: as many as the fullest node of IN has")
      .between(1, 4096)
      .without_default();
  command.flag("--force", resharding.force, "replace OUT");
  command.examples({"weir checkpoint reshard in.h5 out.h5 --ranks 64 --ranks-per-node 8"});
  command.action([options] { end_with([&] { return reshard_checkpoint(options->resharding); }); });
}

}  // namespace weir::cli
