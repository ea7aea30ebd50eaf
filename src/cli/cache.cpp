// weir cache: lists, checks and prunes folders of the sample cache, without MPI.
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <vector>

#include "base/json.hpp"
#include "base/origin.hpp"
#include "cli/checkpoint_files.hpp"
#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "datacache/cache_folder.hpp"
#include "datacache/pack_file.hpp"

namespace weir::cli {
namespace {

using datacache::CacheContents;
using datacache::CacheFile;
using datacache::CacheFolder;
using datacache::Manifest;
using datacache::PackFile;

/// Which packs to remove.
struct Pruning {
  std::string data_set;                ///< only packs of this data set; empty: of all
  std::optional<double> days;          ///< only packs unused for longer
  std::optional<std::uint64_t> bytes;  ///< only until the packs, of this data set or of all, have no more bytes than this
};

/// One data set of a folder.
struct Listed {
  std::string name;
  std::optional<Manifest> manifest;  ///< empty: damaged
  std::int64_t packs = 0, bytes = 0, used = 0;

  /// Returns whether this version of Weir can read it.
  [[nodiscard]] bool known() const { return manifest && manifest->version == datacache::manifest_version; }
};

std::vector<Listed> data_sets_of(const CacheFolder& folder, const CacheContents& there) {
  std::vector<Listed> all;
  for (const std::string& name : there.data_sets) {
    Listed& listed = all.emplace_back(Listed{name, datacache::read_manifest(folder.open_data_set(name))});
    for (const CacheFile& pack : there.packs) {
      if (pack.data_set != name) continue;
      ++listed.packs;
      listed.bytes += pack.status.bytes;
      listed.used = std::max(listed.used, pack.status.used);
    }
  }
  return all;
}

std::string identity_text(const Listed& listed) {
  if (!listed.manifest) return "manifest.json is damaged";
  if (!listed.known()) return fmt::format("of another version of Weir: {}", listed.manifest->version);
  std::string text = listed.manifest->set.identity;
  std::replace_if(
      text.begin(), text.end(), [](unsigned char letter) { return letter < ' '; }, ' ');  // safe for a terminal
  return text;
}

int list_cache(const std::string& path, const std::string& json) {
  const CacheFolder folder(path);
  const CacheContents there = folder.look();
  Rows sets, shown;
  for (const Listed& listed : data_sets_of(folder, there)) {
    const std::string used = listed.packs > 0 ? utc_text(listed.used / 1'000'000'000) : "-";
    JsonValue set = {{"name", listed.name}, {"packs", listed.packs}, {"bytes", listed.bytes}};
    if (listed.packs > 0) set.set("used", used);
    if (listed.known()) {
      set.set("identity", listed.manifest->set.identity);
      set.set("samples", listed.manifest->set.samples);
      set.set("pack_samples", listed.manifest->set.pack_samples);
    } else {
      set.set("error", identity_text(listed));
    }
    sets.push_back(std::move(set));
    const std::string packs = listed.known() ? fmt::format("{}", listed.manifest->set.packs()) : "?";
    shown.push_back({{"name", listed.name},
                     {"packs", fmt::format("{} of {}", listed.packs, packs)},
                     {"size", format_bytes(listed.bytes)},
                     {"used", used},
                     {"identity", identity_text(listed)}});
  }
  std::int64_t unfinished = 0;
  JsonValue files = JsonValue::array();
  for (const CacheFile& file : there.unfinished) {
    unfinished += file.status.bytes;
    files.push_back(fmt::format("{}/{}/{}", path, file.data_set, file.name));
  }
  if (!json.empty())
    write_json_file({{"folder", path},
                     {"in_use", folder.in_use()},
                     {"bytes", there.bytes()},
                     {"data_sets", list_of(sets)},
                     {"unfinished", files}},
                    json);
  if (json == "-") return 0;
  if (sets.empty())
    fmt::print("folder {} has no data sets\n", path);
  else
    print_table(shown, "{name:<8+}  {packs:>17} {size:>9}  {used:<20}  {identity}",
                {"data set", "packs", "size", "last used", "identity"});
  if (!there.unfinished.empty())
    fmt::print("{} ({}) of packs being written, or left by processes that have ended: `weir cache prune` removes the latter\n",
               count_text(there.unfinished.size(), "file"), format_bytes(unfinished));
  fmt::print("{} in {}{}\n", format_bytes(there.bytes()), count_text(there.packs.size(), "pack"),
             folder.in_use() ? "; a run works with the folder" : "");
  return 0;
}

int prune_cache(const std::string& path, const Pruning& wanted) {
  CacheFolder folder(path);
  if (!wanted.data_set.empty()) {
    const std::vector<std::string> names = folder.look().data_sets;
    if (std::find(names.begin(), names.end(), wanted.data_set) == names.end())
      give_up("folder {} has no data set '{}': there {} {}", path, wanted.data_set, names.empty() ? "is" : "are",
              names.empty() ? "none" : joined(names));
  }
  std::int64_t freed = 0;
  const std::vector<std::int64_t> left_overs = folder.remove_left_overs();
  for (const std::int64_t bytes : left_overs) freed += bytes;
  if (!left_overs.empty())
    fmt::print("removed {} of dead writers, {}\n", count_text(left_overs.size(), "file"), format_bytes(freed));

  std::vector<CacheFile> packs = folder.look().packs;
  std::erase_if(packs, [&](const CacheFile& pack) { return !wanted.data_set.empty() && pack.data_set != wanted.data_set; });
  const bool whole = !wanted.data_set.empty() && !wanted.days && !wanted.bytes;
  if (whole) {
    const std::int64_t bytes = folder.remove_data_set(wanted.data_set);
    freed += bytes;
    fmt::print("removed data set {}: {}, {}\n", wanted.data_set, count_text(packs.size(), "pack"), format_bytes(bytes));
  } else if (wanted.days || wanted.bytes) {
    std::int64_t left = 0, removed_bytes = 0;
    for (const CacheFile& pack : packs) left += pack.status.bytes;
    std::stable_sort(packs.begin(), packs.end(),
                     [](const CacheFile& a, const CacheFile& b) { return a.status.used < b.status.used; });
    const auto present = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const double newest = present - wanted.days.value_or(0) * 86400;
    const std::uint64_t most = wanted.bytes.value_or(0);
    std::size_t removed = 0, kept = 0;
    for (const CacheFile& pack : packs) {
      if (wanted.days && static_cast<double>(pack.status.used) * 1e-9 > newest) continue;
      if (wanted.bytes && static_cast<std::uint64_t>(left) <= most) break;
      if (!folder.remove(pack)) {
        ++kept;
        continue;
      }
      ++removed;
      removed_bytes += pack.status.bytes;
      left -= pack.status.bytes;
    }
    freed += removed_bytes;
    fmt::print("removed {}, {}\n", count_text(removed, "pack"), format_bytes(removed_bytes));
    if (kept > 0) fmt::print("{} used just now, or not to be removed by this user\n", count_text(kept, "pack"));
  }
  const CacheContents there = folder.look();
  fmt::print("freed {}; {} in {} are left\n", format_bytes(freed), format_bytes(there.bytes()),
             count_text(there.packs.size(), "pack"));
  return 0;
}

int verify_cache(const std::string& path, bool remove) {
  CacheFolder folder(path);
  const CacheContents there = folder.look();
  std::int64_t total = 0, done = 0;
  for (const CacheFile& pack : there.packs) total += pack.status.bytes;
  int status = 0;
  for (const Listed& listed : data_sets_of(folder, there)) {
    if (!listed.known()) {
      fmt::print("{}/{}: {}\n", path, listed.name, identity_text(listed));
      if (!listed.manifest) status = status_damaged;
      continue;
    }
    const Manifest& manifest = *listed.manifest;
    const Descriptor set_folder = folder.open_data_set(listed.name);
    std::vector<std::string> damaged;
    std::size_t whole = 0;
    {
      ByteProgress progress(listed.name, total);
      datacache::Samples samples;
      for (const CacheFile& pack : there.packs) {
        if (pack.data_set != listed.name) continue;
        const bool known = pack.pack < manifest.set.packs();
        Descriptor file = datacache::open_in(set_folder, pack.name, O_RDONLY);
        if (!file && errno == ENOENT) continue;  // evicted meanwhile
        if (!file) give_up("cannot read {}/{}/{}: {}", path, pack.data_set, pack.name, datacache::reason(errno));
        const auto open = known ? PackFile::open(std::move(file), pack.status.bytes,
                                                 {manifest.fingerprint, pack.pack, manifest.set.samples_of(pack.pack)})
                                : std::nullopt;
        done += pack.status.bytes;
        progress.at(done);
        if (open && open->read_all(samples)) {
          ++whole;
          continue;
        }
        const bool removed = remove && folder.remove(pack);
        damaged.push_back(fmt::format("{}/{}/{} is damaged{}", path, pack.data_set, pack.name, removed ? ", and removed" : ""));
      }
    }
    for (const std::string& line : damaged) fmt::print("{}\n", line);
    fmt::print("{}/{}: {} whole{}\n", path, listed.name, count_text(whole, "pack"),
               damaged.empty() ? "" : fmt::format(", {} damaged", damaged.size()));
    if (!damaged.empty()) status = status_damaged;
  }
  return status;
}

}  // namespace

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
  add_cache_check(group);
}

}  // namespace weir::cli
