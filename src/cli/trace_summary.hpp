// trace_summary.hpp: summarises the traces of all ranks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/trace_files.hpp"

namespace weir::cli {

/// A plan or table call, or a stage of it.
struct StageSummary {
  std::string name;
  int depth = 0;  ///< 0: the call itself; stages within stages are deeper
  std::int64_t runs = 0;
  double median_seconds = 0, total_seconds = 0;  ///< of a run; of all runs of all ranks
  double share = 0;                              ///< of the call's time
  std::int64_t failed = 0;                       ///< failed runs of the call itself
};

struct RankSummary {
  int rank = 0;
  double in_flight_seconds = 0;  ///< time with any plan or table call in flight
  double waited_seconds = 0;     ///< time that the caller spent in wait(), test() and blocking calls while they were in flight
  double overlap = 0;            ///< share of the time in flight in which the caller neither waited nor started a run
  std::int64_t began_last = 0;   ///< runs in all ranks' traces that this rank started last
  double late_seconds = 0;       ///< total delay after the first rank
  double awaited_seconds = 0;    ///< total time that others waited for its messages
  int awaits_most = -1;          ///< the rank that it waited for most
  double awaits_most_seconds = 0;
  std::int64_t left_out = 0;  ///< events
};

struct LevelSummary {
  std::string level;
  std::int64_t messages = 0, bytes = 0;  ///< sent by all ranks
  std::int64_t busiest_bytes = 0;        ///< maximum sent by one rank
  int busiest_rank = 0;
};

/// A call of wait(), and the rank that it waited for longest.
struct WaitSummary {
  double seconds = 0, at_seconds = 0;  ///< duration; time since the begin of the trace
  int rank = 0;
  std::string call;
  std::int64_t run = 0;
  std::string stage{};  ///< empty: no message of the call was in flight
  int peer = -1;
  double peer_seconds = 0;
};

struct TraceSummary {
  double seconds = 0;                ///< from the first event to the last
  std::int64_t compared_runs = 0;    ///< number of runs in all ranks' traces
  std::vector<StageSummary> stages;  ///< in nesting order
  std::vector<RankSummary> ranks;
  std::vector<LevelSummary> levels;
  std::vector<WaitSummary> waits;  ///< the longest first
  std::optional<std::size_t>
      slowest{};  ///< in `ranks`, by its delays and by how long others waited for it; empty: no rank is much slower
};

/// Takes the events of one rank after the other, and keeps a few numbers of each run.
class Summarizer {
 public:
  explicit Summarizer(int ranks) : ranks_(ranks) {}

  void begin_rank(int rank);
  /// Takes events in the order of the file, with times on the common clock. Leaves out what a summary does not use. Throws
  /// JsonError if one is not as Weir writes it.
  void take(const JsonValue& event);
  [[nodiscard]] TraceSummary finish();

 private:
  static constexpr std::size_t most_waits = 5;

  struct Interval {
    std::int64_t begin, end;
  };
  struct Node {
    std::string name;
    int depth = 0;
    std::int64_t failed = 0;
    std::vector<float> seconds{};
    std::vector<std::size_t> children{};
  };
  struct Span {  // a stage that has ended, while those around it have not
    std::int64_t begin, end;
    std::string name;
    std::vector<Span> inner;
  };
  struct Message {
    std::int64_t begin, end;  // while the run waited for nothing else
    int peer;
    std::string stage;
  };
  struct Row {
    std::string name;
    std::size_t node = 0;
    std::vector<Span> stages;
    std::vector<Message> messages, previous;  // of this run and the previous one
    std::int64_t run = 0;
  };
  struct Start {
    std::int64_t first = 0, last = 0;
    int last_rank = 0, ranks = 0;
  };
  struct Sent {
    std::int64_t messages = 0;
    std::map<int, std::int64_t> bytes;  // by rank
  };

  Row& row(int number);
  void add_row(int number, const std::string& name);
  void take_stage(Row& row, const Interval& time, const std::string& name);
  void take_message(Row& row, const Interval& time, const JsonView& begun);
  void take_run(int number, const Interval& time, const JsonView& about);
  void take_wait(const Interval& time, const std::string& call);
  void blame(WaitSummary& wait, const Interval& time, const std::vector<Message>& messages);
  void add(std::size_t node, const std::vector<Span>& stages);
  std::size_t child(std::size_t node, const std::string& name);
  void end_rank();
  void list_stages(std::size_t place, double whole, std::vector<StageSummary>& list) const;
  void compare_starts(TraceSummary& summary) const;

  int ranks_;
  JsonValue begun_;          // the first half of the latest message
  std::map<int, Row> rows_;  // of this rank, like the members that follow
  std::map<std::string, int> rows_of_name_;
  std::vector<Interval> in_flight_;
  std::vector<Interval> busy_;    // when the caller waited or started runs
  std::int64_t tested_ = 0;       // nanoseconds in test()
  std::map<int, double> awaits_;  // by peer

  std::int64_t first_ = 0, last_ = 0;
  bool any_ = false;
  std::vector<Node> nodes_;
  std::map<std::pair<std::string, int>, std::size_t> calls_;     // (name, index among equal names) -> node
  std::map<std::size_t, std::map<std::int64_t, Start>> starts_;  // node, run
  std::map<int, double> awaited_;                                // by peer, of all ranks
  std::map<std::string, Sent> sent_;                             // by level
  TraceSummary summary_;
};

/// Returns the summary as tables.
[[nodiscard]] std::string to_text(const TraceSummary& summary);
[[nodiscard]] JsonValue to_json(const TraceSummary& summary);

}  // namespace weir::cli
