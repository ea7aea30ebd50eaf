// weir cache: lists, checks and prunes folders of the sample cache, without MPI.
#include <fmt/core.h>

#include <functional>
#include <weir/weir.hpp>

#include "base/standard_error.hpp"
#include "cli/cache_data.hpp"
#include "cli/cache_folders.hpp"
#include "cli/checkpoint_files.hpp"
#include "cli/commands.hpp"

namespace weir::cli {
namespace {

/// Ends a subcommand. CLI11 passes the status on, and prints nothing of its own.
void end_with(const std::function<int()>& run) {
  int status = status_trouble;
  try {
    status = run();
  } catch (const std::exception& error) {
    print_error("weir: {}\n", error.what());
  }
  if (status != 0) throw ExitWith(status);
}

}  // namespace

void add_cache(Command& app) {
  Command group = app.add("cache", "Folders of the sample cache: list, prune, verify; data sets: check; without MPI");
  group.require_subcommand();
  group.footer(
      "Status: 0; 1 where a pack is damaged or a sample cannot be had; 2 where the command line is wrong, or something else is in "
      "the way.");

  struct Options {
    std::string folder, json;
    Pruning pruning;
    bool remove = false;
  };
  const auto add = [&](const char* name, const char* what, Options& options) {
    Command command = group.add(name, what);
    command.option("folder", options.folder, "of the cache, which runs and data sets share").required().existing_folder();
    return command;
  };

  auto options = std::make_shared<Options>();
  Command command = add("ls", "List the data sets of a folder", *options);
  command.footer(
      "Name, packs, bytes and time of last use of each data set, what identifies it, and what is being written, or was left by\n"
      "a process that has ended. Nothing is changed.");
  command.option("--json", options->json, "also write it to this file; -: to stdout, and nothing else");
  command.examples({"weir cache ls /local/weir-cache"});
  command.action([options] { end_with([&] { return list_cache(options->folder, options->json); }); });

  options = std::make_shared<Options>();
  command = add("prune", "Remove packs from a folder", *options);
  command.footer(
      "Always what dead writers have left. Packs besides as the options say; several options: only what all of them mean.\n"
      "Runs may go on meanwhile: what they have open they read to its end, and the rest they read from the store.");
  Pruning& pruning = options->pruning;
  command.option("--dataset", pruning.data_set, "of this data set only; with no other option, all of it");
  command.option("--older-than", pruning.days, "packs that were last used this many days ago or earlier")
      .type_name("DAYS")
      .non_negative();
  command.option("--to", pruning.bytes, "what was used least recently, until no more than this is left, 500G for instance")
      .type_name("BYTES")
      .size_with_unit();
  command.examples({"weir cache prune /local/weir-cache --older-than 30 --to 500G"});
  command.action([options] { end_with([&] { return prune_cache(options->folder, options->pruning); }); });

  options = std::make_shared<Options>();
  command = add("verify", "Read every byte of all packs, and hold it against its checksum", *options);
  command.footer("A line for each data set, and for each damaged pack.");
  command.flag("--remove", options->remove, "remove damaged packs: runs read their samples from the store anew");
  command.examples({"weir cache verify /local/weir-cache"});
  command.action([options] { end_with([&] { return verify_cache(options->folder, options->remove); }); });

  command = group.add("check", "Read and decode every sample of a data set, as training would");
  command.footer(
      "A line for each sample that cannot be had: what would end an epoch, or be skipped. The data set is a folder of JPEG files "
      "in\n"
      "subfolders, or a file in the IDX, NumPy or HDF5 format.");
  auto data = std::make_shared<DataToCheck>();
  command.option("data", data->path, "the folder, or the file").required();
  command.option("--dataset", data->dataset, "of an HDF5 file");
  command.option("--labels", data->labels, "file, or data set of the HDF5 file, with labels");
  command.option("--threads", data->threads, "that read and decode (0: one for each core)").non_negative();
  command.examples({"weir cache check /data/train"});
  command.action([data] { end_with([&] { return check_data(*data); }); });
}

}  // namespace weir::cli
