// trace_dumps.hpp: reads dumps of flight recorders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/trace_files.hpp"

namespace weir::cli {

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

}  // namespace weir::cli
