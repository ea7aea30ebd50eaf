#include "cli/trace_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "cli/report.hpp"

namespace weir::cli {
namespace {

constexpr std::size_t most_listed = 12;

/// Returns for example "0, 1 and 3" or "0 to 7 and 9".
std::string list(const std::vector<int>& numbers) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i < 4) end = i + 1;
    items.push_back(end == i + 1 ? fmt::format("{}", numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[end - 1]));
    i = end;
  }
  if (items.size() > most_listed) {
    const std::size_t more = items.size() - most_listed;
    items.resize(most_listed);
    items.push_back(fmt::format("{} more", more));
  }
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  return text;
}

bool has(const JsonView& event, const char* key, const char* value) {
  const std::optional<JsonView> found = event.find(key);
  return found && *found == value;
}

/// Removes files of earlier runs. Adds remarks on these, and on a mixture of versions.
template <class Info>
void keep_newest_run(std::vector<Info>& files, Remarks& remarks) {
  const std::string newest = std::ranges::max_element(files, {}, &Info::unix_ns)->run;
  std::map<std::string, std::vector<int>> by_version;
  std::erase_if(files, [&](const Info& file) {
    if (file.run == newest)
      by_version[file.version].push_back(file.rank);
    else
      remarks.push_back(fmt::format("{} is of an earlier run: left out", file.path.filename().string()));
    return file.run != newest;
  });
  if (by_version.size() < 2) return;
  std::string text;
  for (const auto& [version, ranks] : by_version)
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", version, list_of_ranks(ranks));
  remarks.push_back(fmt::format("ranks run different versions of Weir, which must be the same: {}", text));
}

void read_header(const JsonView& about, FileInfo& info) {
  about.at("version").to(info.version);
  about.at("run").to(info.run);
  about.at("host").to(info.host);
  about.at("communicator").to(info.communicator);
  about.at("rank").to(info.rank);
  about.at("ranks").to(info.ranks);
  about.at("unix_ns").to(info.unix_ns);
}

RecordedCall call_of(const JsonView& entry) {
  const JsonView more = entry.at("weir");
  RecordedCall call;
  entry.at("pg_id").to(call.tag);
  more.at("name").to(call.name);
  more.at("algorithm").to(call.algorithm);
  more.at("type").to(call.type);
  more.at("run").to(call.run);
  entry.at("input_sizes").at(0).at(0).to(call.count);
  more.at("state").to(call.state);
  more.at("stage").to(call.stage);
  more.at("status").to(call.status);
  entry.at("time_created_ns").to(call.created_ns);
  entry.at("timeout_ms").to(call.timeout_ms);
  more.at("awaited_rank").to(call.awaited_rank);
  more.at("awaited_ms").to(call.awaited_ms);
  return call;
}

}  // namespace

std::string list_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list(ranks));
}

std::vector<RankFile> rank_files(const std::filesystem::path& folder, const std::string& kind, std::optional<int> communicator,
                                 Remarks& remarks) {
  // As Identity::file makes it, or without the run.
  const std::regex pattern("weir-" + kind + R"(\.(?:[^.]*\.)?c(\d{1,9})\.rank(\d{1,9})\.json)");
  std::map<int, std::vector<RankFile>> by_communicator;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::smatch numbers;
    std::error_code ignored;
    if (std::regex_match(name, numbers, pattern) && entry->is_regular_file(ignored))
      by_communicator[std::stoi(numbers[1])].push_back({entry->path(), std::stoi(numbers[2])});
  }
  if (error) give_up("the folder '{}' cannot be read: {}", folder.string(), error.message());
  if (by_communicator.empty())
    give_up("'{}' has no file like weir-{}.0a1b2c3d.c0.rank0.json: give the folder that {} named", folder.string(), kind,
            kind == "trace" ? "WEIR_TRACE" : "WEIR_DUMP");
  std::vector<int> there;
  for (const auto& [number, files] : by_communicator) there.push_back(number);
  const int chosen = communicator.value_or(there.front());
  if (!by_communicator.contains(chosen))
    give_up("'{}' has no {} of communicator {}: those there are of {}", folder.string(), kind, chosen, list(there));
  if (!communicator && there.size() > 1)
    remarks.push_back(fmt::format("this is communicator {}; '{}' has {}s of communicators {}, which --communicator picks", chosen,
                                  folder.string(), kind, list(there)));
  std::vector<RankFile> files = by_communicator[chosen];
  std::sort(files.begin(), files.end(), [](const RankFile& a, const RankFile& b) { return a.rank < b.rank; });
  return files;
}

std::vector<int> missing_ranks(const std::vector<int>& present, int ranks) {
  const std::set<int> there(present.begin(), present.end());
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!there.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

TraceReader::TraceReader(const std::filesystem::path& path) : path_(path), file_(path) {
  if (!file_) give_up("'{}' cannot be read", path.string());
}

bool TraceReader::next() {
  while (!closed_ && !damaged_ && std::getline(file_, line_)) {
    ++lines_;
    if (!line_.empty() && line_.back() == ',') line_.pop_back();
    if (line_ == "]") closed_ = true;
    if (line_ == "[" || line_ == "]" || line_.empty()) continue;
    event_ = JsonValue::parse_if_whole(line_).value_or(JsonValue());
    damaged_ = !event_.view().is_object();
    if (!damaged_) return true;
  }
  return false;
}

std::string TraceReader::damage() const {
  if (closed_) return {};
  const std::string name = path_.filename();
  if (!damaged_) return fmt::format("{} has no end: the process was killed or the disk full; read as far as it goes", name);
  if (file_.eof()) return fmt::format("{} ends in the middle of an event: read up to there", name);
  return fmt::format("{} is damaged in line {}: read up to there", name, lines_);
}

TraceInfo read_info(const std::filesystem::path& path) {
  TraceReader reader(path);
  TraceInfo info;
  info.path = path;
  try {
    if (!reader.next() || !(reader.event().view().at("name") == "weir_trace")) throw std::runtime_error("it does not begin as one");
    const JsonView about = reader.event().view().at("args");
    read_header(about, info);
    about.at("start_ns").to(info.start_ns);
    while (info.rounds.empty() && reader.next()) {
      if (!has(reader.event().view(), "name", "weir_clock")) continue;
      for (const JsonView& round : reader.event().view().at("args").at("rounds_ns").elements())
        info.rounds.push_back({round.at(0).integer(), round.at(1).integer()});
    }
  } catch (const std::exception& error) {
    give_up("'{}' is not a trace that Weir has written: {}", path.string(), error.what());
  }
  return info;
}

std::vector<TraceInfo> read_infos(const std::vector<RankFile>& files, Remarks& remarks) {
  std::vector<TraceInfo> all;
  for (const RankFile& file : files) {
    try {
      all.push_back(read_info(file.path));
    } catch (const std::runtime_error& error) {
      remarks.push_back(fmt::format("{}: left out", error.what()));
    }
  }
  if (all.empty()) throw std::runtime_error("none of the traces can be read");
  keep_newest_run(all, remarks);
  std::vector<int> present;
  for (const TraceInfo& info : all) present.push_back(info.rank);
  if (const std::vector<int> missing = missing_ranks(present, all.front().ranks); !missing.empty())
    remarks.push_back(fmt::format("there is no trace of {}, of {} ranks", list_of_ranks(missing), all.front().ranks));
  for (const TraceInfo& info : all) {
    if (info.rounds.empty())
      remarks.push_back(fmt::format("{} has no event weir_clock: its clock is set by the calendar", info.path.filename().string()));
  }
  return all;
}

void move_event(JsonValue& event, std::int64_t shift_ns, int rank, int ranks) {
  if (const auto time = event.view().find("ts")) {
    const std::int64_t moved = std::llround(time->number() * 1e3) + shift_ns;
    event.set("ts", static_cast<double>(moved) / 1e3);
  }
  if (const auto id = event.view().find("id")) event.set("id", id->integer() * ranks + rank);
}

void read_events(const TraceInfo& info, std::int64_t shift_ns, Remarks& remarks,
                 const std::function<void(const JsonValue&)>& take) {
  TraceReader reader(info.path);
  while (reader.next()) {
    try {
      move_event(reader.event(), shift_ns, info.rank, info.ranks);
      take(reader.event());
    } catch (const JsonError&) {
      remarks.push_back(fmt::format("{} has an event that Weir has not written: left out", info.path.filename().string()));
    }
  }
  if (const std::string damage = reader.damage(); !damage.empty()) remarks.push_back(damage);
}

RecordedRank parse_dump(std::string_view text) {
  const std::optional<JsonValue> whole = JsonValue::parse_if_whole(text);
  if (!whole) throw std::runtime_error(text.empty() ? "it is empty" : "it is not JSON: cut short, or not written by Weir");
  try {
    const JsonView dump = whole->view();
    const JsonView more = dump.at("weir");
    RecordedRank rank;
    read_header(more, rank);
    more.at("why").to(rank.why);
    for (const JsonView& entry : dump.at("entries").elements()) rank.calls.push_back(call_of(entry));
    return rank;
  } catch (const JsonError& error) {
    give_up("it is not a dump that this version of Weir has written: {}", error.what());
  }
}

Dumps read_dumps(const std::vector<RankFile>& files, Remarks& remarks) {
  Dumps dumps;
  for (const RankFile& file : files) {
    std::ifstream in(file.path);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    try {
      dumps.ranks.push_back(parse_dump(text));
      dumps.ranks.back().path = file.path;
    } catch (const std::runtime_error& error) {
      remarks.push_back(fmt::format("{} cannot be read: {}", file.path.filename().string(), error.what()));
      dumps.unreadable.push_back(file.rank);
    }
  }
  if (dumps.ranks.empty()) give_up("none of the dumps can be read; {}", remarks.back());
  keep_newest_run(dumps.ranks, remarks);
  return dumps;
}

}  // namespace weir::cli
