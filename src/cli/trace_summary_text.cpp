// A summary of traces as tables and as JSON.
#include <fmt/core.h>

#include "base/json.hpp"
#include "cli/trace_summary.hpp"

namespace weir::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string ms(double seconds) { return fmt::format("{:.{}f}", 1e3 * seconds, seconds < 0.1 ? 3 : seconds < 10 ? 1 : 0); }

void add_stages(std::string& text, const TraceSummary& summary) {
  text += fmt::format("time by stage: medians of a rank's run, totals of all ranks, stages within stages indented\n");
  text += fmt::format("{:<40} {:>9} {:>12} {:>12} {:>8}\n", "", "runs", "median ms", "total ms", "share");
  for (const StageSummary& stage : summary.stages) {
    text +=
        fmt::format("{:<40} {:>9} {:>12} {:>12} {:>8}", std::string(static_cast<std::size_t>(2 * stage.depth), ' ') + stage.name,
                    stage.runs, ms(stage.median_seconds), ms(stage.total_seconds), percent(stage.share));
    if (stage.failed > 0) text += fmt::format("  {} failed", stage.failed);
    text += '\n';
  }
}

void add_ranks(std::string& text, const TraceSummary& summary) {
  text += fmt::format(
      "\nranks: time with runs in flight, the caller's waiting, and overlap, the share of the time in flight in which the "
      "caller\nneither waited nor started a run; runs that the rank was the last to start, by how much; how long others "
      "waited for it\n");
  text += fmt::format("{:>4} {:>13} {:>11} {:>9} {:>11} {:>9} {:>11}  {}\n", "rank", "in flight ms", "waited ms", "overlap",
                      "last of " + std::to_string(summary.compared_runs), "late ms", "awaited ms", "waits most for");
  for (const RankSummary& rank : summary.ranks) {
    text += fmt::format("{:>4} {:>13} {:>11} {:>9} {:>11} {:>9} {:>11}  ", rank.rank, ms(rank.in_flight_seconds),
                        ms(rank.waited_seconds), percent(rank.overlap), rank.began_last, ms(rank.late_seconds),
                        ms(rank.awaited_seconds));
    if (rank.awaits_most < 0)
      text += "nobody";
    else
      text += fmt::format("rank {}, {} ms", rank.awaits_most, ms(rank.awaits_most_seconds));
    text += '\n';
  }
  for (const RankSummary& rank : summary.ranks) {
    if (rank.left_out > 0)
      text +=
          fmt::format("rank {}'s trace lacks {} events, which came faster than they could be written: its figures are too low\n",
                      rank.rank, rank.left_out);
  }
}

void add_slowest(std::string& text, const TraceSummary& summary) {
  if (!summary.slowest) {
    if (summary.ranks.size() > 1) text += "\nno rank is much slower than the others\n";
    return;
  }
  const RankSummary& rank = summary.ranks[*summary.slowest];
  text += fmt::format("\nslowest: rank {}. ", rank.rank);
  if (summary.compared_runs > 0)
    text += fmt::format("It was the last to start {} of {} runs, by {} ms in all; ", rank.began_last, summary.compared_runs,
                        ms(rank.late_seconds));
  text += fmt::format("the others waited {} ms for its messages, all together. It waited {} ms", ms(rank.awaited_seconds),
                      ms(rank.waited_seconds));
  if (rank.awaits_most >= 0) text += fmt::format(", {} ms of it for rank {}", ms(rank.awaits_most_seconds), rank.awaits_most);
  text += ".\n";
}

void add_bytes(std::string& text, const TraceSummary& summary) {
  text += "\nbytes of messages by level; not what goes through shared memory, NCCL and the MPI library's own allreduce\n";
  text += fmt::format("{:<14} {:>10} {:>15} {:>26}\n", "level", "messages", "bytes sent", "by the busiest rank");
  for (const LevelSummary& level : summary.levels) {
    text += fmt::format("{:<14} {:>10} {:>15} {:>26}\n", level.level, level.messages, level.bytes,
                        fmt::format("{} (rank {})", level.busiest_bytes, level.busiest_rank));
  }
}

void add_waits(std::string& text, const TraceSummary& summary) {
  if (summary.waits.empty()) return;
  text += "\nlongest waits\n";
  for (const WaitSummary& wait : summary.waits) {
    text += fmt::format("{:>10} ms at {:.3f} s: rank {}, '{}', run {}", ms(wait.seconds), wait.at_seconds, wait.rank, wait.call,
                        wait.run);
    if (wait.peer >= 0)
      text += fmt::format(", {} ms of it in {} for rank {}", ms(wait.peer_seconds), wait.stage.empty() ? "no stage" : wait.stage,
                          wait.peer);
    text += '\n';
  }
}

}  // namespace

std::string to_text(const TraceSummary& summary) {
  std::string text;
  add_stages(text, summary);
  add_ranks(text, summary);
  add_slowest(text, summary);
  add_bytes(text, summary);
  add_waits(text, summary);
  return text;
}

JsonValue to_json(const TraceSummary& summary) {
  JsonValue stages = JsonValue::array(), ranks = JsonValue::array(), levels = JsonValue::array(), waits = JsonValue::array();
  for (const StageSummary& stage : summary.stages) {
    stages.push_back({{"name", stage.name},
                      {"depth", stage.depth},
                      {"runs", stage.runs},
                      {"failed", stage.failed},
                      {"median_ms", stage.median_seconds * 1e3},
                      {"total_ms", stage.total_seconds * 1e3},
                      {"share", stage.share}});
  }
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"in_flight_ms", rank.in_flight_seconds * 1e3},
                     {"waited_ms", rank.waited_seconds * 1e3},
                     {"overlap", rank.overlap},
                     {"began_last", rank.began_last},
                     {"late_ms", rank.late_seconds * 1e3},
                     {"awaited_ms", rank.awaited_seconds * 1e3},
                     {"awaits_most", rank.awaits_most},
                     {"awaits_most_ms", rank.awaits_most_seconds * 1e3},
                     {"events_left_out", rank.left_out}});
  }
  for (const LevelSummary& level : summary.levels) {
    levels.push_back({{"level", level.level},
                      {"messages", level.messages},
                      {"bytes_sent", level.bytes},
                      {"busiest_bytes", level.busiest_bytes},
                      {"busiest_rank", level.busiest_rank}});
  }
  for (const WaitSummary& wait : summary.waits) {
    waits.push_back({{"ms", wait.seconds * 1e3},
                     {"at_s", wait.at_seconds},
                     {"rank", wait.rank},
                     {"call", wait.call},
                     {"run", wait.run},
                     {"stage", wait.stage},
                     {"peer", wait.peer},
                     {"peer_ms", wait.peer_seconds * 1e3}});
  }
  JsonValue all = JsonValue::object();
  all.set("seconds", summary.seconds);
  all.set("compared_runs", summary.compared_runs);
  all.set("slowest_rank", summary.slowest ? JsonValue(summary.ranks[*summary.slowest].rank) : JsonValue());
  all.set("stages", std::move(stages));
  all.set("ranks", std::move(ranks));
  all.set("levels", std::move(levels));
  all.set("waits", std::move(waits));
  return all;
}

}  // namespace weir::cli
