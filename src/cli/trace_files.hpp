// trace_files.hpp: finds and reads the files that the ranks of a communicator have written: traces (WEIR_TRACE) and dumps
// (WEIR_DUMP).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "observe/tracer.hpp"

namespace weir::cli {

struct RankFile {
  std::filesystem::path path;
  int rank = 0;
};

/// Remarks, as text, on problems that do not stop the work.
using Remarks = std::vector<std::string>;

/// Returns the files weir-KIND.RUN.cC.rankR.json and weir-KIND.cC.rankR.json of `folder`, by rank. `kind` is "trace" or "dump".
/// Without a `communicator`, takes the first one found. Throws std::runtime_error saying what is there instead.
[[nodiscard]] std::vector<RankFile> rank_files(const std::filesystem::path& folder, const std::string& kind,
                                               std::optional<int> communicator, Remarks& remarks);

/// The header of a trace or a dump.
struct FileInfo {
  std::filesystem::path path;
  std::string version, run, host;
  int communicator = 0, rank = 0, ranks = 1;
  std::int64_t unix_ns = 0;  ///< time of a trace's begin, or of a dump's end
};

/// Returns the ranks below `ranks` that are not in `present`.
[[nodiscard]] std::vector<int> missing_ranks(const std::vector<int>& present, int ranks);

struct TraceInfo : FileInfo {
  std::int64_t start_ns = 0;  ///< on this rank's steady clock; times of events count from here
  std::vector<ClockRound> rounds{};
};

/// Reads a trace event by event.
class TraceReader {
 public:
  /// Throws std::runtime_error if it cannot be read.
  explicit TraceReader(const std::filesystem::path& path);

  /// Reads the next event. Returns false at the end.
  [[nodiscard]] bool next();
  /// Returns the event as the file has it.
  [[nodiscard]] JsonValue& event() { return event_; }
  /// Returns why the file ends too early, or an empty text.
  [[nodiscard]] std::string damage() const;

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  JsonValue event_;
  std::int64_t lines_ = 0;
  bool closed_ = false, damaged_ = false;
};

/// Reads the header, with clocks. Throws std::runtime_error if this is not a trace.
[[nodiscard]] TraceInfo read_info(const std::filesystem::path& path);
/// Reads the headers of the newest run's traces. Adds remarks on files left out, on ranks without a trace, and on a mixture of
/// versions.
[[nodiscard]] std::vector<TraceInfo> read_infos(const std::vector<RankFile>& files, Remarks& remarks);
/// Changes a rank's event for a trace of all `ranks`: moves its time by `shift_ns`, and gives its messages unique numbers.
void move_event(JsonValue& event, std::int64_t shift_ns, int rank, int ranks);
/// Calls take(event) with every event, moved by `shift_ns`. Adds remarks on events for which that throws JsonError, and on a file
/// that ends too early.
void read_events(const TraceInfo& info, std::int64_t shift_ns, Remarks& remarks, const std::function<void(const JsonValue&)>& take);

/// One run of a plan or table call.
struct RecordedCall {
  int tag = 0;
  std::string name, algorithm, type;
  std::int64_t run = 0, count = 0;
  std::string state;  ///< scheduled, started, completed or failed
  std::string stage, status;
  std::int64_t created_ns = 0;  ///< by the host's calendar clock
  double timeout_ms = 0;
  int awaited_rank = -1;  ///< the rank that it waited for longest
  double awaited_ms = 0;

  [[nodiscard]] bool in_flight() const { return state == "scheduled" || state == "started"; }
  [[nodiscard]] bool failed() const { return state == "failed"; }
};

struct RecordedRank : FileInfo {
  std::string why;                  ///< why it was written
  std::vector<RecordedCall> calls;  ///< the oldest first

  /// Returns whether nothing had gone wrong: a signal or the program has requested the dump.
  [[nodiscard]] bool was_asked_for() const { return why.ends_with("has asked for it"); }
  [[nodiscard]] bool timed_out() const { return why.find("s without progress") != std::string::npos; }
};

/// Parses a dump. Throws std::runtime_error saying what is wrong with the text.
[[nodiscard]] RecordedRank parse_dump(std::string_view text);

struct Dumps {
  std::vector<RecordedRank> ranks;
  std::vector<int> unreadable;  ///< ranks with a dump that cannot be read
};

/// Reads the dumps of the newest run. Throws std::runtime_error if none can be read.
[[nodiscard]] Dumps read_dumps(const std::vector<RankFile>& files, Remarks& remarks);

/// Returns for example "rank 2" or "ranks 0, 1 and 3".
[[nodiscard]] std::string list_of_ranks(const std::vector<int>& ranks);

}  // namespace weir::cli
