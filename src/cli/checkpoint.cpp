// weir checkpoint: shows, compares and reshards checkpoint files, without MPI.
#include <weir/weir.hpp>

#include "base/standard_error.hpp"
#include "cli/checkpoint_files.hpp"
#include "cli/commands.hpp"

namespace weir::cli {
namespace {

/// Returns the status of a subcommand. That of a damaged file is status_damaged.
template <class Run>
int status_of(Run run) {
  try {
    return run();
  } catch (const Error& error) {
    if (error.status() != WEIR_ERR_FILE) throw;
    print_error("weir: {}\n", error.what());
    return status_damaged;
  }
}

void add_json(Command& command, std::string& json) {
  command.option("--json", json, "also write the output to this file, as JSON; -: write only JSON, to stdout");
}

}  // namespace

void add_checkpoint(Command& app) {
  Command group = app.add("checkpoint", "List, show, verify, compare and reshard checkpoint files, without MPI");
  group.require_subcommand();
  group.footer("The exit status is 1 if a file is damaged, 2 if something else is wrong, and 0 otherwise.");

  struct Options {
    std::string a, b, json;
    std::vector<std::string> paths;
    Resharding resharding;
    bool reseals = false;
  };
  auto options = std::make_shared<Options>();
  Command command = group.add("ls", "List the checkpoints of a folder");
  command.footer(
      "The list has the step, time of writing, ranks, nodes, run and size of each file. "
      "It says whether each file's seal holds, and which file is the newest by the manifest. "
      "It also has what interrupted saves have left. "
      "Nothing is changed.");
  command.option("folder", options->a, "folder of a run's checkpoints").required().existing_folder();
  add_json(command, options->json);
  command.examples({"weir checkpoint ls checkpoints"});
  command.action([options] { end_with(status_of([&] { return list_checkpoints(options->a, options->json); })); });

  options = std::make_shared<Options>();
  command = group.add("show", "Show the values, configurations and datasets of a file");
  command.option("file", options->a, "a checkpoint").required().existing_file();
  add_json(command, options->json);
  command.examples({"weir checkpoint show checkpoints/checkpoint-300.h5"});
  command.action([options] { end_with(status_of([&] { return show_checkpoint(options->a, options->json); })); });

  options = std::make_shared<Options>();
  command = group.add("verify", "Read every byte of files, and compare it with its checksum");
  command.option("path", options->paths, "checkpoints, or folders of checkpoints").required().existing_path();
  command.flag(
      "--reseal", options->reseals,
      "check every chunk, and seal the file as it is now; for files that another program, such as h5repack, has rewritten");
  command.examples({"weir checkpoint verify checkpoints"});
  command.action([options] { end_with(status_of([&] { return verify_checkpoints(options->paths, options->reseals); })); });

  options = std::make_shared<Options>();
  command = group.add("diff", "Compare two files");
  command.footer(
      "The command compares attributes, values, configurations and datasets, but not the time of writing, version and compression. "
      "For each rank, it prints the number of differing elements and the largest difference. "
      "The exit status is 0 if nothing differs, 1 if something differs, and 2 if a file cannot be read.");
  command.option("first", options->a, "a checkpoint").required().existing_file();
  command.option("second", options->b, "another one").required().existing_file();
  command.examples({"weir checkpoint diff a.h5 b.h5"});
  command.action([options] { end_with(diff_checkpoints(options->a, options->b)); });

  options = std::make_shared<Options>();
  Resharding& resharding = options->resharding;
  command = group.add("reshard", "Write the checkpoint of a job with another number of ranks");
  command.footer(
      "OUT is the file that the other job would have after it restores IN and saves at once. "
      "Blocks are divided evenly. "
      "Local arrays stay with the ranks that still exist. "
      "The command needs the memory of all those ranks in one process: plans, tables, optimizers and arrays, and twice the size of "
      "what is saved. "
      "A job that restores IN itself gets the same state and needs no such file.");
  command.option("in", resharding.in, "a checkpoint").required().existing_file();
  command.option("out", resharding.out, "the file to write").required();
  command.option("--ranks", resharding.ranks, "ranks of the job that will restore OUT")
      .required()
      .between(1, 4096)
      .without_default();
  command.option("--ranks-per-node", resharding.per_node, "ranks of a node; default: as many as the fullest node of IN has")
      .between(1, 4096)
      .without_default();
  command.flag("--force", resharding.force, "replace OUT");
  command.examples({"weir checkpoint reshard in.h5 out.h5 --ranks 64 --ranks-per-node 8"});
  command.action([options] { end_with(status_of([&] { return reshard_checkpoint(options->resharding); })); });
}

}  // namespace weir::cli
