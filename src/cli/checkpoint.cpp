// weir checkpoint: shows, compares and reshards checkpoint files, without MPI.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <variant>
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

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto scaled = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; scaled >= 999.5 && unit + 1 < units.size(); ++unit) scaled /= 1000;
  return fmt::format("{:.{}f} {}", scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, units[unit]);
}

std::string text_of(const checkpoint::Value& value) {
  return std::visit(
      [](const auto& x) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, std::string>)
          return fmt::format("'{}'", x);
        else
          return fmt::format("{}", x);
      },
      value);
}

std::string_view text_of(const checkpoint::Dataset& dataset, std::size_t rank) {
  const std::span<const std::byte> bytes = dataset.value(rank);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

JsonValue values_json(const checkpoint::Values& values) {
  JsonValue json = JsonValue::object();
  for (const auto& [name, value] : values) json.set(name, std::visit([](const auto& x) { return JsonValue(x); }, value));
  return json;
}

std::int64_t stored_bytes(const checkpoint::Dataset& dataset) {
  if (!dataset.chunked) return static_cast<std::int64_t>(dataset.values.size());
  std::int64_t bytes = 0;
  for (const checkpoint::Chunk& chunk : dataset.chunks) bytes += chunk.bytes;
  return bytes;
}

std::int64_t element_bytes_of(const checkpoint::Dataset& dataset) {
  std::int64_t elements = 0;
  for (const checkpoint::Piece& piece : dataset.pieces) elements += std::max<std::int64_t>(0, piece.count);
  return elements * dataset.element_bytes();
}

std::int64_t array_bytes(const checkpoint::Index& index) {
  std::int64_t bytes = 0;
  for (const checkpoint::Subject& subject : index.subjects) {
    for (const checkpoint::Dataset& dataset : subject.datasets) bytes += dataset.chunked ? stored_bytes(dataset) : 0;
  }
  return bytes;
}

ByteProgress::ByteProgress(std::string what, std::int64_t total)
    : what_(std::move(what)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}

ByteProgress::~ByteProgress() {
  if (shown_) print_error("\r{:78}\r", "");
}

void ByteProgress::at(std::int64_t done) {
  constexpr std::int64_t width = 24;
  const Clock::time_point now = Clock::now();
  if (!terminal_ || total_ <= 0 || now - began_ < std::chrono::milliseconds(500) ||
      (shown_ && now - last_ < std::chrono::milliseconds(100)))
    return;
  const std::int64_t filled = std::min(width, done * width / total_);
  const double seconds = std::chrono::duration<double>(now - began_).count();
  print_error("\r{} {:#<{}}{:.<{}} {:3} %  {:>8}/s ", what_, "", filled, "", width - filled,
              std::min<std::int64_t>(100, done * 100 / total_),
              format_bytes(static_cast<std::int64_t>(static_cast<double>(done) / seconds)));
  std::fflush(stderr);
  shown_ = true;
  last_ = now;
}

void write_json_file(const JsonValue& json, const std::string& file) {
  if (file == "-")
    fmt::print("{}\n", json.text());
  else
    write_json(json, file);
}

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
