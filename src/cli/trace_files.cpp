#include "cli/trace_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>

namespace weir::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_listed = 12;

/// "0, 1 and 3", "0 to 7 and 9"
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

/// Microseconds of a trace as nanoseconds.
std::int64_t nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

bool has(const Json& event, const char* key, const char* value) {
  const auto found = event.find(key);
  return found != event.end() && *found == value;
}

/// Turns events of the file into those of a summary.
class Translator {
 public:
  /// False: this one says nothing to a summary, or is the first half of a message.
  bool translate(const Json& event, std::int64_t shift_ns, TraceEvent& out) {
    out = {};
    const std::string phase = event.at("ph");
    if (event.contains("tid")) out.row = event.at("tid");
    if (event.contains("ts")) out.begin = out.end = nanoseconds(event.at("ts")) + shift_ns;
    if (phase == "M" && has(event, "name", "thread_name")) {
      out.kind = TraceEvent::Kind::row;
      out.name = event.at("args").at("name");
      return true;
    }
    if (phase == "i") return has(event, "cat", "test") ? tested(event, out) : left_out(event, out);
    if (phase == "X") return span(event, out);
    if (phase == "b") {
      begun_ = event;
      return false;
    }
    return phase == "e" && message(event, shift_ns, out);
  }

 private:
  static bool tested(const Json& event, TraceEvent& out) {
    out.kind = TraceEvent::Kind::tested;
    out.name = event.at("args").at("for");
    out.number = event.at("args").at("ns");
    return true;
  }

  static bool left_out(const Json& event, TraceEvent& out) {
    const std::string name = event.at("name");
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out.number);
    out.kind = TraceEvent::Kind::left_out;
    return error == std::errc{} && std::string_view(end) == " events left out";
  }

  static bool span(const Json& event, TraceEvent& out) {
    out.end += nanoseconds(event.at("dur"));
    out.name = event.at("name");
    const std::string category = event.at("cat");
    if (category == "run") {
      out.kind = TraceEvent::Kind::run;
      out.number = event.at("args").at("run");
      out.failed = event.at("args").at("failed");
    } else if (category == "wait") {
      out.kind = TraceEvent::Kind::wait;
      out.name = event.at("args").at("for");
    } else if (category == "stage") {
      out.kind = TraceEvent::Kind::stage;
    } else {
      return false;
    }
    return true;
  }

  /// `event` is its end. Weir writes both halves of a message at once, one after the other.
  bool message(const Json& event, std::int64_t shift_ns, TraceEvent& out) const {
    if (!begun_.contains("id") || begun_.at("id") != event.at("id")) return false;
    const Json& about = begun_.at("args");
    out.kind = TraceEvent::Kind::message;
    out.begin = nanoseconds(begun_.at("ts")) + shift_ns;
    out.number = about.at("bytes");
    out.peer = about.at("peer");
    out.level = about.at("level");
    out.sent = begun_.at("name").get<std::string>().starts_with("to ");
    return true;
  }

  Json begun_;
};

template <class T>
void get(const Json& from, const char* key, T& value) {
  value = from.at(key).get<T>();
}

/// Returns what `name` says of a file of that kind, communicator and rank.
std::optional<std::pair<int, int>> parse_name(const std::string& name, const std::string& kind) {
  static const std::regex pattern("weir-([a-z]+)\\.c([0-9]{1,9})\\.rank([0-9]{1,9})\\.json");
  std::smatch match;
  if (!std::regex_match(name, match, pattern) || match[1] != kind) return std::nullopt;
  return std::pair(std::stoi(match[2]), std::stoi(match[3]));
}

}  // namespace

std::string list_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list(ranks));
}

std::vector<RankFile> rank_files(const std::filesystem::path& folder, const std::string& kind, std::optional<int> communicator,
                                 Remarks& remarks) {
  std::map<int, std::vector<RankFile>> by_communicator;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto numbers = parse_name(entry->path().filename(), kind);
    std::error_code ignored;
    if (numbers && entry->is_regular_file(ignored)) by_communicator[numbers->first].push_back({entry->path(), numbers->second});
  }
  if (error) throw std::runtime_error(fmt::format("the folder '{}' cannot be read: {}", folder.string(), error.message()));
  if (by_communicator.empty())
    throw std::runtime_error(fmt::format("'{}' has no file like weir-{}.c0.rank0.json: give the folder that {} named",
                                         folder.string(), kind, kind == "trace" ? "WEIR_TRACE" : "WEIR_DUMP"));
  std::vector<int> there;
  for (const auto& [number, files] : by_communicator) there.push_back(number);
  const int chosen = communicator.value_or(there.front());
  if (!by_communicator.contains(chosen))
    throw std::runtime_error(
        fmt::format("'{}' has no {} of communicator {}: those there are of {}", folder.string(), kind, chosen, list(there)));
  if (!communicator && there.size() > 1)
    remarks.push_back(fmt::format("this is communicator {}; '{}' has {}s of communicators {}, which --communicator picks", chosen,
                                  folder.string(), kind, list(there)));
  std::vector<RankFile> files = by_communicator[chosen];
  std::sort(files.begin(), files.end(), [](const RankFile& a, const RankFile& b) { return a.rank < b.rank; });
  return files;
}

std::vector<bool> are_of_newest_run(const std::vector<const FileInfo*>& files, Remarks& remarks) {
  const FileInfo& newest =
      **std::max_element(files.begin(), files.end(), [](const auto* a, const auto* b) { return a->unix_ns < b->unix_ns; });
  std::vector<bool> keep;
  std::map<std::string, std::vector<int>> by_version;
  for (const FileInfo* file : files) {
    keep.push_back(file->run == newest.run);
    if (keep.back())
      by_version[file->version].push_back(file->rank);
    else
      remarks.push_back(fmt::format("{} is of an earlier run: left out", file->path.filename().string()));
  }
  if (by_version.size() > 1) {
    std::string text;
    for (const auto& [version, ranks] : by_version)
      text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", version, list_of_ranks(ranks));
    remarks.push_back(fmt::format("ranks run different versions of Weir, which must be the same: {}", text));
  }
  return keep;
}

std::vector<int> missing_ranks(const std::vector<int>& present, int ranks) {
  const std::set<int> there(present.begin(), present.end());
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!there.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

TraceReader::TraceReader(const std::filesystem::path& path) : path_(path), file_(path), event_(std::make_unique<Json>()) {
  if (!file_) throw std::runtime_error(fmt::format("'{}' cannot be read", path.string()));
}

TraceReader::~TraceReader() = default;

bool TraceReader::next() {
  while (!closed_ && !damaged_ && std::getline(file_, line_)) {
    ++lines_;
    if (!line_.empty() && line_.back() == ',') line_.pop_back();
    if (line_ == "]") closed_ = true;
    if (line_ == "[" || line_ == "]" || line_.empty()) continue;
    *event_ = Json::parse(line_, nullptr, false);
    damaged_ = !event_->is_object();
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
    if (!reader.next() || reader.event().at("name") != "weir_trace") throw std::runtime_error("it does not begin as one");
    const Json& about = reader.event().at("args");
    get(about, "version", info.version);
    get(about, "run", info.run);
    get(about, "host", info.host);
    get(about, "communicator", info.communicator);
    get(about, "rank", info.rank);
    get(about, "ranks", info.ranks);
    get(about, "start_ns", info.start_ns);
    get(about, "unix_ns", info.unix_ns);
    while (info.rounds.empty() && reader.next()) {
      if (!has(reader.event(), "name", "weir_clock")) continue;
      for (const Json& round : reader.event().at("args").at("rounds_ns")) info.rounds.push_back({round.at(0), round.at(1)});
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("'{}' is not a trace that Weir has written: {}", path.string(), error.what()));
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
  std::vector<TraceInfo> infos = of_newest_run(all, remarks);
  std::vector<int> present;
  for (const TraceInfo& info : infos) present.push_back(info.rank);
  if (const std::vector<int> missing = missing_ranks(present, infos.front().ranks); !missing.empty())
    remarks.push_back(fmt::format("there is no trace of {}, of {} ranks", list_of_ranks(missing), infos.front().ranks));
  for (const TraceInfo& info : infos) {
    if (info.rounds.empty())
      remarks.push_back(fmt::format("{} has no event weir_clock: its clock is set by the calendar", info.path.filename().string()));
  }
  return infos;
}

void read_events(const TraceInfo& info, std::int64_t shift_ns, Remarks& remarks,
                 const std::function<void(const TraceEvent&)>& take) {
  TraceReader reader(info.path);
  Translator translator;
  TraceEvent event;
  try {
    while (reader.next()) {
      if (translator.translate(reader.event(), shift_ns, event)) take(event);
    }
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        fmt::format("'{}' has an event that Weir has not written: {}", info.path.string(), reader.event().dump()));
  }
  if (const std::string damage = reader.damage(); !damage.empty()) remarks.push_back(damage);
}

}  // namespace weir::cli
