// trace_files.hpp: what the ranks of a communicator have left in a folder: traces (WEIR_TRACE) and dumps (WEIR_DUMP).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "observe/tracer.hpp"

namespace weir::cli {

struct RankFile {
  std::filesystem::path path;
  int rank = 0;
};

/// Remarks, as text, on what is not as it should be and does not stop the work.
using Remarks = std::vector<std::string>;

/// The files weir-KIND.RUN.cC.rankR.json and weir-KIND.cC.rankR.json of `folder`, by rank; `kind` is "trace" or "dump". Without a
/// `communicator`, those of the first one there. Throws std::runtime_error saying what is there instead.
[[nodiscard]] std::vector<RankFile> rank_files(const std::filesystem::path& folder, const std::string& kind,
                                               std::optional<int> communicator, Remarks& remarks);

/// What a trace or a dump says of itself.
struct FileInfo {
  std::filesystem::path path;
  std::string version, run, host;
  int communicator = 0, rank = 0, ranks = 1;
  std::int64_t unix_ns = 0;  ///< when: a trace its begin, a dump its end
};

/// Those of the newest run. Remarks on what is left out and on a mixture of versions.
[[nodiscard]] std::vector<bool> are_of_newest_run(const std::vector<const FileInfo*>& files, Remarks& remarks);
template <class Info>
[[nodiscard]] std::vector<Info> of_newest_run(const std::vector<Info>& all, Remarks& remarks) {
  std::vector<const FileInfo*> files;
  for (const Info& info : all) files.push_back(&info);
  const std::vector<bool> keep = are_of_newest_run(files, remarks);
  std::vector<Info> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) kept.push_back(all[i]);
  }
  return kept;
}
/// Returns the ranks below `ranks` that are not in `present`.
[[nodiscard]] std::vector<int> missing_ranks(const std::vector<int>& present, int ranks);

struct TraceInfo : FileInfo {
  std::int64_t start_ns = 0;  ///< of this rank's steady clock: times of events count from here
  std::vector<ClockRound> rounds{};
};

/// What a summary is made of.
struct TraceEvent {
  enum class Kind { row, run, stage, wait, tested, message, left_out };
  Kind kind = Kind::row;
  int row = 0;
  std::string name{};               ///< of the row or stage; wait and tested: of the row that was awaited
  std::int64_t begin = 0, end = 0;  ///< nanoseconds
  std::int64_t number = 0;          ///< of the run; bytes of the message; events that were left out; nanoseconds in test()
  bool failed = false;              ///< the run
  bool sent = false;                ///< the message, else received
  int peer = -1;
  std::string level{};
};

/// A trace, event by event.
class TraceReader {
 public:
  /// Throws std::runtime_error where it cannot be read.
  explicit TraceReader(const std::filesystem::path& path);

  /// False at the end.
  [[nodiscard]] bool next();
  /// As the file has it.
  [[nodiscard]] JsonValue& event() { return event_; }
  /// Why the file ends before its time; empty: it does not.
  [[nodiscard]] std::string damage() const;

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  JsonValue event_;
  std::int64_t lines_ = 0;
  bool closed_ = false, damaged_ = false;
};

/// Clocks included. Throws std::runtime_error where this is no trace.
[[nodiscard]] TraceInfo read_info(const std::filesystem::path& path);
/// The traces of the newest run among `files`. Remarks on what is left out, on ranks without a trace and on a mixture of versions.
[[nodiscard]] std::vector<TraceInfo> read_infos(const std::vector<RankFile>& files, Remarks& remarks);
/// Calls take(event) with every event, times moved by `shift_ns`. Remarks on a file that ends before its time.
void read_events(const TraceInfo& info, std::int64_t shift_ns, Remarks& remarks,
                 const std::function<void(const TraceEvent&)>& take);

/// "rank 2", "ranks 0, 1 and 3"
[[nodiscard]] std::string list_of_ranks(const std::vector<int>& ranks);

}  // namespace weir::cli
