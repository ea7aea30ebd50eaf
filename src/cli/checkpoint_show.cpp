// weir checkpoint ls, show and verify.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <weir/weir.hpp>

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/hdf5_file.hpp"
#include "checkpoint/whole_file.hpp"
#include "cli/checkpoint_files.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::Dataset;
using checkpoint::Index;
using checkpoint::Piece;
using checkpoint::Subject;

std::size_t nodes_of(const Index& index) { return std::set<std::int64_t>(index.nodes.begin(), index.nodes.end()).size(); }

/// Returns a file's contents. If it is damaged, returns nothing and sets `why`.
std::optional<Index> read_if_whole(const std::string& path, std::string& why) {
  try {
    return checkpoint::read_whole(path);
  } catch (const Error& error) {
    if (error.status() != WEIR_ERR_FILE) throw;
    why = error.what();
    return {};
  }
}

/// Returns for example "1068810 on each of 4 ranks" or "3 to 5 on 3 of 4 ranks".
std::string elements_text(const Dataset& dataset) {
  std::vector<std::int64_t> counts;
  for (const Piece& piece : dataset.pieces) {
    if (piece.present()) counts.push_back(piece.count);
  }
  if (counts.empty()) return "none";
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const std::string elements = *least == *most ? fmt::format("{}", *most) : fmt::format("{} to {}", *least, *most);
  const std::size_t ranks = dataset.pieces.size();
  if (counts.size() < ranks) return fmt::format("{} on {} of {} ranks", elements, counts.size(), ranks);
  return fmt::format("{} on {}{}", elements, ranks == 1 ? "" : "each of ", count_text(ranks, "rank"));
}

/// Returns the ratio of bytes in memory to bytes in the file.
double compression_ratio(const Dataset& dataset) {
  const std::int64_t stored = stored_bytes(dataset);
  return stored == 0 ? 1 : static_cast<double>(element_bytes_of(dataset)) / static_cast<double>(stored);
}

JsonValue to_json(const Dataset& dataset) {
  JsonValue elements = JsonValue::array();
  for (const Piece& piece : dataset.pieces) elements.push_back(piece.present() ? JsonValue(piece.count) : JsonValue());
  return {{"name", dataset.name},
          {"type", state_type_name(dataset.type)},
          {"share", name_of(dataset.share)},
          {"elements", elements},
          {"chunks", dataset.chunks.size()},
          {"chunk_elements", dataset.chunk_elements},
          {"stored_bytes", stored_bytes(dataset)},
          {"compression_ratio", compression_ratio(dataset)}};
}

JsonValue to_json(const std::string& file, const Index& index) {
  JsonValue subjects = JsonValue::array();
  for (const Subject& subject : index.subjects) {
    JsonValue datasets = JsonValue::array();
    for (const Dataset& dataset : subject.datasets) datasets.push_back(to_json(dataset));
    subjects.push_back({{"kind", checkpoint::word_of(subject.kind)},
                        {"name", subject.name},
                        {"path", subject.path()},
                        {"configuration", values_json(subject.about)},
                        {"datasets", datasets}});
  }
  return {{"file", file},
          {"bytes", fs::file_size(file)},
          {"step", index.step},
          {"written", index.written},
          {"weir", index.weir},
          {"run", index.run},
          {"ranks", index.ranks()},
          {"node_of_rank", index.nodes},
          {"compression", index.compression},
          {"values", values_json(index.values)},
          {"subjects", subjects}};
}

/// Prints words in lines of at most 110 characters.
void print_wrapped(const std::vector<std::string>& words, std::string_view indent) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty() && line.size() + word.size() > 110) {
      fmt::print("{}{}\n", indent, line);
      line.clear();
    }
    line += line.empty() ? word : " " + word;
  }
  if (!line.empty()) fmt::print("{}{}\n", indent, line);
}

void print(const Subject& subject) {
  fmt::print("\n{}, {}\n", subject.words(), subject.path());
  std::vector<std::string> words;
  for (const auto& [name, value] : subject.about) words.push_back(fmt::format("{}={}", name, text_of(value)));
  print_wrapped(words, "  ");
  Rows rows;
  for (const Dataset& dataset : subject.datasets) {
    rows.push_back(to_json(dataset));
    rows.back().set("stored", format_bytes(stored_bytes(dataset)));
    rows.back().set("ratio", dataset.chunked ? fmt::format("{:.2f}", compression_ratio(dataset)) : "-");
    rows.back().set("elements", elements_text(dataset));
  }
  print_table(rows, "  {name:<8+}  {type:<8} {share:<7} {stored:>10} {ratio:>6}  {elements}",
              {"dataset", "type", "share", "stored", "ratio", "elements"});
}

/// Runs `work` silently in a child process. Returns false if that crashes or needs more than `seconds` of processor time. Returns
/// true if it ends in any other way, including an exception.
bool survives(const std::function<void()>& work, int seconds) {
  std::fflush(nullptr);  // otherwise the child would write the buffered output again
  const pid_t child = fork();
  if (child < 0) fail(WEIR_ERR_STATE, "no process can be started: {}", std::strerror(errno));
  if (child == 0) {
    const rlimit no_core{0, 0}, time{static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds)};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &time);
    if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0)
      dup2(nowhere, STDERR_FILENO);  // hides last messages of glibc and HDF5
    try {
      work();
    } catch (...) {  // the parent will see the same error
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status);
}

/// Returns the files that `path` names.
std::vector<std::string> files_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  const checkpoint::Folder folder(path);
  std::vector<std::string> files;
  for (const std::int64_t step : folder.steps()) files.push_back(folder.file_of(step));
  if (files.empty()) give_up("folder {} has no file checkpoint-STEP.h5", path);
  return files;
}

}  // namespace

int list_checkpoints(const std::string& folder, const std::string& json) {
  const checkpoint::Folder there(folder);
  const bool has_manifest = fs::exists(folder + "/manifest.json");
  const std::optional<std::int64_t> newest = there.newest();
  Rows files, shown;
  std::vector<std::string> damages;
  for (const std::int64_t step : there.steps()) {
    const std::string path = there.file_of(step);
    std::error_code gone;
    const std::uintmax_t size = fs::file_size(path, gone);
    const std::int64_t bytes = gone ? 0 : static_cast<std::int64_t>(size);
    std::string why;
    const std::optional<Index> index = read_if_whole(path, why);
    JsonValue& file = files.emplace_back(
        JsonValue{{"file", path}, {"step", step}, {"bytes", bytes}, {"newest", step == newest}, {"seal_holds", index.has_value()}});
    JsonValue known = {{"written", "?"}, {"ranks", "?"}, {"nodes", "?"}};
    if (index) {
      file.set("written", index->written);
      file.set("ranks", index->ranks());
      file.set("nodes", nodes_of(*index));
      file.set("run", index->run);
      known = file;
    } else {
      file.set("error", why);
      damages.push_back(why);
    }
    known.set("step", step);
    known.set("size", format_bytes(bytes));
    known.set("seal", index ? "holds" : "BROKEN");
    known.set("newest", step == newest ? "newest" : "");
    shown.push_back(std::move(known));
  }
  const std::vector<std::string> left = there.left_overs();
  if (!json.empty()) {
    JsonValue unfinished = JsonValue::array();
    for (const std::string& path : left) unfinished.push_back(path);
    write_json_file({{"folder", folder}, {"manifest", has_manifest}, {"files", list_of(files)}, {"unfinished", unfinished}}, json);
  }
  if (json != "-") {
    if (files.empty())
      fmt::print("folder {} has no checkpoints\n", folder);
    else
      print_table(shown, "{step:>12}  {written:<20} {ranks:>6} {nodes:>6} {size:>10}  {seal:<8} {newest:<7} {run}",
                  {"step", "written", "ranks", "nodes", "size", "seal", "", "run"});
    for (const std::string& why : damages) fmt::print("{}\n", why);
    if (!has_manifest && !files.empty())
      fmt::print("there is no manifest.json: the newest is the one of the largest step; the next run makes a manifest\n");
    for (const std::string& path : left)
      fmt::print("{}: of a save that is under way, or was interrupted; the next run removes it\n", path);
  }
  return damages.empty() ? 0 : status_damaged;
}

int show_checkpoint(const std::string& file, const std::string& json) {
  const Index index = checkpoint::read_whole(file);
  if (!json.empty()) write_json_file(to_json(file, index), json);
  if (json == "-") return 0;
  std::int64_t elements = 0;
  for (const Subject& subject : index.subjects) {
    for (const Dataset& dataset : subject.datasets) elements += dataset.chunked ? element_bytes_of(dataset) : 0;
  }
  const std::int64_t stored = array_bytes(index);
  fmt::print("{}: step {}, {} on {}, written {} by Weir {}{}\n", file, index.step,
             count_text(static_cast<std::size_t>(index.ranks()), "rank"), count_text(nodes_of(index), "node"), index.written,
             index.weir, index.run.empty() ? "" : fmt::format(", run '{}'", index.run));
  fmt::print("{}; arrays: {} stored of {}, ratio {:.2f}{}\n", format_bytes(static_cast<std::int64_t>(fs::file_size(file))),
             format_bytes(stored), format_bytes(elements),
             stored == 0 ? 1.0 : static_cast<double>(elements) / static_cast<double>(stored),
             index.compression == 0 ? ", not compressed" : fmt::format(", deflate {}", index.compression));
  if (!index.values.empty()) fmt::print("\nvalues\n");
  for (const auto& [name, value] : index.values) fmt::print("  {} = {}\n", name, text_of(value));
  for (const Subject& subject : index.subjects) print(subject);
  return 0;
}

int verify_checkpoints(const std::vector<std::string>& paths, bool reseals) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    for (std::string& file : files_of(path)) files.push_back(std::move(file));
  }
  int status = 0;
  for (const std::string& file : files) {
    try {
      if (reseals) {
        // Before the seal is checked, the HDF5 library may read damaged data. Some damage makes it crash or loop forever.
        if (!survives([&] { (void)checkpoint::find_chunks(file, false); }, 20))
          fail(WEIR_ERR_FILE, "{} is damaged: the HDF5 library crashes on it, or does not come to an end", file);
        (void)checkpoint::reseal(file);
        fmt::print("{}: sealed anew: every chunk is as it was saved; attributes and small values are taken as they are\n", file);
      }
      const Index index = checkpoint::read_whole(file);
      std::size_t chunks = 0;
      for (const Subject& subject : index.subjects) {
        for (const Dataset& dataset : subject.datasets) chunks += dataset.chunks.size();
      }
      {
        ByteProgress progress(fs::path(file).filename().string(), array_bytes(index));
        checkpoint::verify_chunks(file, index, [&](std::int64_t done) { progress.at(done); });
      }
      fmt::print("{}: whole: step {}, {} in {}\n", file, index.step, format_bytes(array_bytes(index)), count_text(chunks, "chunk"));
    } catch (const Error& error) {
      if (error.status() != WEIR_ERR_FILE) throw;
      fmt::print("{}\n", error.what());
      status = status_damaged;
    }
  }
  return status;
}

}  // namespace weir::cli
