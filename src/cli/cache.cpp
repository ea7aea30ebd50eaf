// weir cache: lists, checks and prunes folders of the sample cache, without MPI.
#include "cli/cache.hpp"

#include "cli/commands.hpp"

namespace weir::cli {

void add_cache(Command& app) {
  Command group = app.add("cache", "List, prune and verify folders of the sample cache, and check data sets, without MPI");
  group.require_subcommand();
  group.footer(
      "The exit status is 1 if a pack is damaged or a sample cannot be read, 2 if something else is wrong, and 0 otherwise.");

  struct Options {
    std::string folder, json;
    Pruning pruning;
    bool remove = false;
  };
  const auto add = [&](const char* name, const char* what, Options& options) {
    Command command = group.add(name, what);
    command.option("folder", options.folder, "folder of the cache, which runs and data sets share").required().existing_folder();
    return command;
  };

  auto options = std::make_shared<Options>();
  Command command = add("ls", "List the data sets of a folder", *options);
  command.footer(
      "The list has the packs, bytes, time of last use and identity of each data set. "
      "It also has unfinished files: those being written, and those left by a process that has ended. "
      "Nothing is changed.");
  command.option("--json", options->json, "also write the list to this file, as JSON; -: write only JSON, to stdout");
  command.examples({"weir cache ls /local/weir-cache"});
  command.action([options] { end_with(list_cache(options->folder, options->json)); });

  options = std::make_shared<Options>();
  command = add("prune", "Remove packs from a folder", *options);
  command.footer(
      "Unfinished files of processes that have ended are always removed. "
      "Packs are removed only with an option; with several options, only packs to which all of them apply. "
      "Other runs may continue: they read the packs that they have open to the end, and the rest from the store.");
  Pruning& pruning = options->pruning;
  command.option("--dataset", pruning.data_set, "remove packs of this data set only; without other options, all of them");
  command.option("--older-than", pruning.days, "remove packs last used at least this many days ago")
      .type_name("DAYS")
      .non_negative();
  command.option("--to", pruning.bytes, "remove the least recently used packs until at most this many bytes are left, such as 500G")
      .type_name("BYTES")
      .size_with_unit();
  command.examples({"weir cache prune /local/weir-cache --older-than 30 --to 500G"});
  command.action([options] { end_with(prune_cache(options->folder, options->pruning)); });

  options = std::make_shared<Options>();
  command = add("verify", "Read every byte of all packs, and compare it with its checksum", *options);
  command.footer("The command prints a line for each data set and for each damaged pack.");
  command.flag("--remove", options->remove, "remove damaged packs; runs then read their samples from the store again");
  command.examples({"weir cache verify /local/weir-cache"});
  command.action([options] { end_with(verify_cache(options->folder, options->remove)); });

  command = group.add("check", "Read and decode every sample of a data set, as training would");
  command.footer(
      "The data set is a folder of JPEG files in subfolders, or a file in the IDX, NumPy or HDF5 format. "
      "The command prints a line for each sample that cannot be read. "
      "Training would end the epoch at such a sample, or skip it.");
  auto data = std::make_shared<DataToCheck>();
  command.option("data", data->path, "folder or file of the data set").required();
  command.option("--dataset", data->dataset, "data set of an HDF5 file");
  command.option("--labels", data->labels, "file, or data set of the HDF5 file, with labels");
  command.option("--threads", data->threads, "threads that read and decode; 0: one for each core").non_negative();
  command.examples({"weir cache check /data/train"});
  command.action([data] { end_with(check_data(*data)); });
}

}  // namespace weir::cli
