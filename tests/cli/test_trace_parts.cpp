// Tests `weir trace` on small traces and dumps made by hand.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/trace_diagnose.hpp"
#include "cli/trace_merge.hpp"
#include "cli/trace_summary.hpp"
#include "support/catch.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::WithinAbs;

constexpr std::int64_t ms = 1000000;

/// A new folder, removed with the object.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("weir-trace-parts-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TraceInfo info_of(int rank, const std::string& host, std::int64_t start_ns, std::vector<ClockRound> rounds) {
  TraceInfo info;
  info.rank = rank;
  info.host = host;
  info.start_ns = start_ns;
  info.unix_ns = 5000 + start_ns;
  info.rounds = std::move(rounds);
  return info;
}

std::string header(int rank, const std::string& run = "00000000000000aa", std::int64_t unix_ns = 1000,
                   const std::string& version = "0.1.0") {
  const JsonValue args = {{"version", version},
                          {"run", run},
                          {"communicator", 0},
                          {"rank", rank},
                          {"ranks", 2},
                          {"host", "host" + std::to_string(rank)},
                          {"start_ns", 1000000 * (rank + 1)},
                          {"unix_ns", unix_ns}};
  const JsonValue event = {{"name", "weir_trace"}, {"ph", "M"}, {"pid", rank}, {"args", args}};
  return "[\n" + event.view().dump();
}
const std::string clock_event = R"({"name":"weir_clock","ph":"M","pid":0,"args":{"rounds_ns":[[10,20]]}})";
const std::string row_event = R"({"name":"thread_name","ph":"M","pid":0,"tid":2,"args":{"name":"w \"q\""}})";
const std::string stage_event = R"({"name":"select","cat":"stage","ph":"X","pid":0,"tid":2,"ts":12.345,"dur":1.5})";
const std::string message_events =
    R"({"name":"from rank 1","cat":"message","ph":"b","id":1,"pid":0,"tid":2,"ts":1.000,"args":{"bytes":9,"peer":1,"level":"node"}})"
    ",\n"
    R"({"name":"from rank 1","cat":"message","ph":"e","id":1,"pid":0,"tid":2,"ts":2.000})";
const std::string run_event =
    R"({"name":"w \"q\"","cat":"run","ph":"X","pid":0,"tid":2,"ts":10.000,"dur":5.001,"args":{"run":3,"failed":true}})";

JsonValue event_of(const char* category, int row, const std::string& name, std::int64_t begin, std::int64_t end) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"tid", row},
          {"ts", static_cast<double>(begin) / 1e3},
          {"dur", static_cast<double>(end - begin) / 1e3}};
}
JsonValue row_of(int row, const std::string& name) {
  JsonValue args = JsonValue::object();
  args.set("name", name);
  return {{"name", "thread_name"}, {"ph", "M"}, {"tid", row}, {"args", args}};
}
JsonValue run_of(int row, std::int64_t number, std::int64_t begin, std::int64_t end) {
  JsonValue event = event_of("run", row, "", begin, end);
  event.set("args", {{"run", number}, {"failed", false}});
  return event;
}
JsonValue wait_of(const std::string& name, std::int64_t begin, std::int64_t end) {
  JsonValue event = event_of("wait", 0, "wait", begin, end), args = JsonValue::object();
  args.set("for", name);
  event.set("args", args);
  return event;
}
void take_message(Summarizer& summarizer, int row, bool sent, int peer, std::int64_t bytes, std::int64_t begin, std::int64_t end) {
  JsonValue event = event_of("message", row, sent ? "to rank 1" : "from rank 1", begin, begin);
  event.set("ph", "b");
  event.set("id", begin);
  event.set("args", {{"bytes", bytes}, {"peer", peer}, {"level", "node"}});
  summarizer.take(event);
  event.set("ph", "e");
  event.set("ts", static_cast<double>(end) / 1e3);
  summarizer.take(event);
}

RecordedCall call_of(const std::string& name, std::int64_t run, const std::string& state, int awaited_rank = -1,
                     double awaited_ms = 0) {
  RecordedCall call;
  call.tag = 3;
  call.name = name;
  call.algorithm = "oktopk";
  call.type = "float32";
  call.count = 1000;
  call.run = run;
  call.state = state;
  call.stage = state == "completed" ? "none" : "split_reduce";
  call.created_ns = 1000 * ms + run;
  call.timeout_ms = 1000;
  call.awaited_rank = awaited_rank;
  call.awaited_ms = awaited_ms;
  return call;
}
RecordedRank rank_of(int rank, std::vector<RecordedCall> calls) {
  RecordedRank dump;
  dump.rank = rank;
  dump.ranks = 4;
  dump.unix_ns = 2000 * ms + rank;
  dump.why = "rank " + std::to_string(rank) + " waited 1.0 s without progress; in flight:\n  w, run 7: exchange; awaits [x]\n  v";
  dump.calls = std::move(calls);
  return dump;
}
/// Returns dumps of four ranks, all in run 7 of 'w', in which each waits for `awaited`.
Dumps four_ranks(int awaited) {
  Dumps dumps;
  for (int rank = 0; rank < 4; ++rank)
    dumps.ranks.push_back(
        rank_of(rank, {call_of("w", 6, "completed"), call_of("w", 7, "started", rank == awaited ? -1 : awaited, 1000)}));
  return dumps;
}

}  // namespace

TEST_CASE("ranks are listed as one would write them") {
  REQUIRE(list_of_ranks({3}) == "rank 3");
  REQUIRE(list_of_ranks({0, 1, 3}) == "ranks 0, 1 and 3");
  REQUIRE(list_of_ranks({0, 1, 2, 3, 9, 10}) == "ranks 0 to 3, 9 and 10");
  std::vector<int> odd;
  for (int rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  REQUIRE_THAT(list_of_ranks(odd), Catch::Matchers::EndsWith("23 and 38 more"));
}

TEST_CASE("clocks: rounds bound the offset from both sides, and all rounds together more closely") {
  // rank 1's clock is 1000 ahead; true times in comments
  const std::vector<TraceInfo> ranks = {info_of(0, "a", 0, {{100, 200}, {300, 400}}),
                                        // entered 110, 350; left 150, 420
                                        info_of(1, "b", 0, {{1110, 1150}, {1350, 1420}})};
  const std::vector<ClockOffset> offsets = align_clocks(ranks);
  REQUIRE(offsets[0].from == ClockOffset::From::reference);
  // at least 1350 - 400 = 950 and 910; at most 1150 - 100 = 1050 and 1120
  REQUIRE(offsets[1].from == ClockOffset::From::rounds);
  REQUIRE(offsets[1].offset_ns == 1000);
  REQUIRE(offsets[1].half_width_ns == 50);
}

TEST_CASE("clocks: random clocks are found within the half-width stated") {
  std::uint32_t state = 7;
  const auto dice = [&state](std::int64_t below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(state) * static_cast<std::uint64_t>(below)) >> 32U);
  };
  for (int trial = 0; trial < 200; ++trial) {
    const int hosts = 1 + static_cast<int>(dice(4)), per_host = 1 + static_cast<int>(dice(3));
    std::vector<std::int64_t> clocks;
    for (int host = 0; host < hosts; ++host) clocks.push_back(dice(2000000) - 1000000);
    std::vector<TraceInfo> ranks;
    for (int rank = 0; rank < hosts * per_host; ++rank)
      ranks.push_back(info_of(rank, std::to_string(rank / per_host), dice(1000), {}));
    std::int64_t now = 0;
    for (int round = 0; round < 16; ++round) {
      std::int64_t all_in = now;
      for (TraceInfo& rank : ranks) {
        const std::int64_t clock = clocks[static_cast<std::size_t>(rank.rank / per_host)];
        const std::int64_t entered = now + dice(1000);
        all_in = std::max(all_in, entered);
        rank.rounds.push_back({entered + clock, 0});
      }
      for (TraceInfo& rank : ranks)
        rank.rounds.back().left = all_in + dice(1000) + clocks[static_cast<std::size_t>(rank.rank / per_host)];
      now = all_in + 2000;
    }
    for (const ClockOffset& offset : align_clocks(ranks)) {
      const std::int64_t truth = clocks[static_cast<std::size_t>(offset.rank / per_host)] - clocks[0];
      REQUIRE(offset.from != ClockOffset::From::calendar);
      REQUIRE(std::abs(offset.offset_ns - truth) <= offset.half_width_ns);
      REQUIRE(offset.half_width_ns <= 2000);
    }
  }
}

TEST_CASE("clocks: two machines of one name are told apart; without rounds, or where they contradict, the calendar counts") {
  std::vector<TraceInfo> same_name = {info_of(0, "a", 0, {{100, 200}}), info_of(1, "a", 0, {{5110, 5150}})};
  REQUIRE(align_clocks(same_name)[1].offset_ns == 4980);  // 4910 to 5050
  std::vector<TraceInfo> none = {info_of(0, "a", 100, {}), info_of(1, "b", 300, {})};
  none[1].unix_ns = none[0].unix_ns + 50;
  REQUIRE(align_clocks(none)[1].from == ClockOffset::From::calendar);
  REQUIRE(align_clocks(none)[1].offset_ns == 150);
  REQUIRE(shifts_of(none, align_clocks(none)) == std::vector<std::int64_t>{0, 50});
  std::vector<TraceInfo> contradict = {info_of(0, "a", 0, {{0, 10}, {100, 110}}), info_of(1, "b", 0, {{0, 10}, {500, 510}})};
  REQUIRE(align_clocks(contradict)[1].from == ClockOffset::From::calendar);
}

TEST_CASE("merging moves times to the nanosecond and keeps messages of ranks apart") {
  JsonValue event = JsonValue::parse(stage_event);
  move_event(event, 1, 0, 2);
  REQUIRE(event.view().at("ts").dump() == "12.346");
  REQUIRE(event.view().at("dur").dump() == "1.5");
  std::set<std::int64_t> ids;
  for (int rank = 0; rank < 3; ++rank) {
    for (int id = 1; id <= 5; ++id) {
      JsonValue message = {{"id", id}, {"ts", 0}};
      move_event(message, 0, rank, 3);
      REQUIRE(ids.insert(message.view().at("id").integer()).second);
    }
  }
}

TEST_CASE("a trace is read event by event, and as far as it is whole") {
  const Folder folder;
  Remarks remarks;
  const std::string whole = header(0) + ",\n" + clock_event + ",\n" + row_event + ",\n" + message_events + ",\n" + stage_event +
                            ",\n" + run_event + "\n]\n";
  folder.write("whole.json", whole);
  const TraceInfo info = read_info(folder.path() / "whole.json");
  REQUIRE(info.rank == 0);
  REQUIRE(info.ranks == 2);
  REQUIRE(info.rounds.size() == 1);
  std::vector<JsonValue> events;
  read_events(info, 100, remarks, [&](const JsonValue& event) { events.push_back(event); });
  REQUIRE(remarks.empty());
  REQUIRE(events.size() == 7);  // header, clock, row, both halves of the message, stage, run
  REQUIRE(events[5].view().at("ts").dump() == "12.445");
  Summarizer summarizer(1);
  summarizer.begin_rank(0);
  for (const JsonValue& event : events) summarizer.take(event);
  summarizer.take(wait_of("w \"q\"", 1100, 2100));
  const TraceSummary summary = summarizer.finish();
  REQUIRE_THAT(summary.seconds,
               WithinAbs(14.001e-6, 1e-12));  // from 1.1 us, when the message began, to 15.101 us, when the run ended
  REQUIRE(summary.stages.size() == 2);
  REQUIRE((summary.stages[0].name == "w \"q\"" && summary.stages[0].failed == 1));
  REQUIRE_THAT(summary.stages[0].median_seconds, WithinAbs(5.001e-6, 1e-12));
  REQUIRE(summary.stages[1].name == "select");
  REQUIRE_THAT(summary.stages[1].median_seconds, WithinAbs(1.5e-6, 1e-12));
  REQUIRE(summary.levels.empty());  // the message was received
  REQUIRE((summary.waits[0].peer == 1 && summary.waits[0].run == 3));
  REQUIRE_THAT(summary.waits[0].peer_seconds, WithinAbs(1e-6, 1e-12));

  // A trace cut anywhere after the header yields no invented events, and the cut is reported.
  for (std::size_t length = header(0).size() + clock_event.size() + 4; length + 2 < whole.size(); ++length) {
    folder.write("cut.json", whole.substr(0, length));
    Remarks said;
    std::size_t seen = 0;
    read_events(read_info(folder.path() / "cut.json"), 100, said, [&](const JsonValue& event) {
      REQUIRE(event.view() == events.at(seen).view());
      ++seen;
    });
    REQUIRE(said.size() == 1);
    REQUIRE_THAT(said[0], ContainsSubstring("cut.json has no end") || ContainsSubstring("cut.json ends in the middle of an event"));
    REQUIRE(seen >= 2);
  }
  folder.write("damaged.json", header(0) + ",\n" + clock_event + ",\n{oops},\n" + stage_event + "\n]\n");
  std::size_t whole_events = 0;
  read_events(read_info(folder.path() / "damaged.json"), 0, remarks, [&](const JsonValue&) { ++whole_events; });
  REQUIRE(whole_events == 2);
  REQUIRE(remarks == Remarks{"damaged.json is damaged in line 4: read up to there"});
  folder.write("odd.json",
               header(0) + ",\n" + clock_event + ",\n" + R"({"name":"odd","ts":"now"})" + ",\n" + stage_event + "\n]\n");
  remarks.clear();
  whole_events = 0;
  read_events(read_info(folder.path() / "odd.json"), 0, remarks, [&](const JsonValue&) { ++whole_events; });
  REQUIRE(whole_events == 3);
  REQUIRE(remarks == Remarks{"odd.json has an event that Weir has not written: left out"});
  folder.write("other.json", "[\n{\"name\":\"else\"}\n]\n");
  REQUIRE_THROWS_WITH(read_info(folder.path() / "other.json"), ContainsSubstring("is not a trace that Weir has written"));
}

TEST_CASE("folders: what is missing, mixed or of another kind is said") {
  const Folder folder;
  Remarks remarks;
  REQUIRE_THROWS_WITH(rank_files(folder.path() / "no", "trace", {}, remarks), ContainsSubstring("cannot be read: No such file"));
  REQUIRE_THROWS_WITH(
      rank_files(folder.path(), "trace", {}, remarks),
      ContainsSubstring("has no file like weir-trace.0a1b2c3d.c0.rank0.json: give the folder that WEIR_TRACE named"));
  folder.write("weir-trace.c1.rank0.json", header(0) + ",\n" + clock_event);
  folder.write("weir-trace.4711_2-000000bb.c1.rank10.json", header(1, "00000000000000bb", 900));
  folder.write("weir-trace.c1.rank2.json", "");
  folder.write("weir-trace.c4.rank0.json", "");
  folder.write("weir-trace.c1.json", "[\n]\n");
  for (const char* other : {"weir-trace.json", "weir-trace..json", "weir-trace.a.b.c1.rank0.json", "weir-trace.a.json"})
    folder.write(other, "");
  folder.write("weir-dump.c1.rank3.json", "");
  const std::vector<RankFile> files = rank_files(folder.path(), "trace", {}, remarks);
  REQUIRE(files.size() == 3);
  REQUIRE(files[2].rank == 10);
  REQUIRE(remarks.size() == 1);
  REQUIRE_THAT(remarks[0], ContainsSubstring("this is communicator 1") && ContainsSubstring("communicators 1 and 4"));
  REQUIRE_THROWS_WITH(rank_files(folder.path(), "trace", 3, remarks),
                      ContainsSubstring("no trace of communicator 3: those there are of 1 and 4"));
  remarks.clear();
  REQUIRE(read_infos(files, remarks).size() == 1);
  REQUIRE(remarks.size() == 3);
  REQUIRE_THAT(remarks[0], ContainsSubstring("rank2.json' is not a trace"));
  REQUIRE_THAT(remarks[1], ContainsSubstring("weir-trace.4711_2-000000bb.c1.rank10.json is of an earlier run: left out"));
  REQUIRE_THAT(remarks[2], ContainsSubstring("there is no trace of rank 1, of 2 ranks"));
  folder.write("weir-trace.c1.rank1.json", header(1, "00000000000000aa", 900, "0.2.0"));
  remarks.clear();
  REQUIRE(read_infos(rank_files(folder.path(), "trace", 1, remarks), remarks).size() == 2);
  REQUIRE_THAT(remarks[2],
               ContainsSubstring("different versions of Weir, which must be the same: 0.1.0 on rank 0; 0.2.0 on rank 1"));
}

TEST_CASE("summary: stages nest, shares are of the call's time") {
  Summarizer summarizer(1);
  summarizer.begin_rank(0);
  summarizer.take(row_of(2, "w"));
  for (std::int64_t t = 0; t < 3; ++t) {
    const std::int64_t begin = 100 * ms * t;
    summarizer.take(event_of("stage", 2, "select", begin + 1 * ms, begin + 3 * ms));
    for (const int part : {0, 1})  // twice in a run
      summarizer.take(event_of("stage", 2, "balance", begin + (4 + part) * ms, begin + (5 + part) * ms));
    summarizer.take(event_of("stage", 2, "exchange", begin + 3 * ms, begin + 8 * ms));
    summarizer.take(run_of(2, t + 1, begin, begin + (10 + t) * ms));
  }
  const TraceSummary summary = summarizer.finish();
  REQUIRE(summary.stages.size() == 4);
  const std::array names = {"w", "select", "exchange", "balance"};
  const std::array depths = {0, 1, 1, 2};
  const std::array medians = {0.011, 0.002, 0.005, 0.002};
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(summary.stages[i].name == names[i]);
    REQUIRE(summary.stages[i].depth == depths[i]);
    REQUIRE(summary.stages[i].runs == 3);
    REQUIRE_THAT(summary.stages[i].median_seconds, WithinAbs(medians[i], 1e-7));
  }
  REQUIRE_THAT(summary.stages[2].share, WithinAbs(15.0 / 33, 1e-6));
  REQUIRE_FALSE(summary.slowest);
}

TEST_CASE("summary: overlap leaves out waiting and starting") {
  Summarizer summarizer(1);
  summarizer.begin_rank(0);
  summarizer.take(row_of(0, "caller"));
  summarizer.take(row_of(2, "w"));
  summarizer.take(row_of(3, "v"));
  // 2 ms of selection, 10 ms of computing beside it, 8 ms of waiting; a second run within the first
  take_message(summarizer, 2, false, 0, 1, 2 * ms, 19 * ms);
  summarizer.take(run_of(3, 1, 5 * ms, 6 * ms));
  summarizer.take(run_of(2, 1, 0, 20 * ms));
  summarizer.take(wait_of("w", 12 * ms, 20 * ms));
  const TraceSummary summary = summarizer.finish();
  REQUIRE_THAT(summary.ranks[0].in_flight_seconds, WithinAbs(0.020, 1e-9));
  REQUIRE_THAT(summary.ranks[0].waited_seconds, WithinAbs(0.008, 1e-9));
  REQUIRE_THAT(summary.ranks[0].overlap, WithinAbs(0.5, 1e-9));
}

TEST_CASE("summary: the slowest rank starts last, and the others wait for it") {
  Summarizer summarizer(3);
  for (int rank = 0; rank < 3; ++rank) {
    summarizer.begin_rank(rank);
    summarizer.take(row_of(0, "caller"));
    summarizer.take(row_of(2, "w"));
    for (std::int64_t t = 0; t < 4; ++t) {
      const std::int64_t begin = 100 * ms * t, started = begin + (rank == 1 ? 30 * ms : rank * ms), end = begin + 40 * ms;
      take_message(summarizer, 2, true, (rank + 1) % 3, 1000, started, started + 1 * ms);
      take_message(summarizer, 2, false, (rank + 2) % 3, 1000, started, end - 8 * ms);
      if (rank != 1) take_message(summarizer, 2, false, 1, 500, started, end - 5 * ms);
      summarizer.take(event_of("stage", 2, "split_reduce", started, end - 1 * ms));
      summarizer.take(run_of(2, t + 1, started, end));
      summarizer.take(wait_of("w", started, end));
    }
  }
  const TraceSummary summary = summarizer.finish();
  REQUIRE(summary.compared_runs == 4);
  REQUIRE(summary.slowest == 1);
  REQUIRE(summary.ranks[1].began_last == 4);
  REQUIRE_THAT(summary.ranks[1].late_seconds, WithinAbs(0.120, 1e-9));
  // rank 2: from 3 ms, when its own message was sent, to 32 ms; both: the last 3 ms; rank 0: 1 ms to send
  REQUIRE_THAT(summary.ranks[1].awaited_seconds, WithinAbs(4 * (0.029 + 0.003 + 0.003 + 0.001), 1e-9));
  REQUIRE(summary.ranks[2].awaits_most == 1);
  REQUIRE(summary.waits.size() == 5);
  REQUIRE(summary.waits[0].rank == 0);
  REQUIRE(summary.waits[0].stage == "split_reduce");
  REQUIRE(summary.waits[0].peer == 2);
  REQUIRE(summary.waits[4].rank == 2);
  REQUIRE(summary.waits[4].peer == 1);
  REQUIRE(summary.levels.size() == 1);
  REQUIRE(summary.levels[0].messages == 12);
  REQUIRE(summary.levels[0].bytes == 12000);
  REQUIRE(summary.levels[0].busiest_bytes == 4000);
  REQUIRE_THAT(to_text(summary), ContainsSubstring("slowest: rank 1. It was the last to start 4 of 4 runs, by 120.0 ms in all"));
  REQUIRE(to_json(summary).view().at("slowest_rank").integer() == 1);
}

TEST_CASE("diagnosis: a silent rank") {
  Dumps dumps = four_ranks(2);
  dumps.ranks.erase(dumps.ranks.begin() + 2);
  const Diagnosis diagnosis = diagnose(dumps);
  REQUIRE(diagnosis.wrong);
  REQUIRE(
      diagnosis.verdict ==
      "rank 2 wrote no dump: it is frozen, dead, or busy outside Weir; ranks 0, 1 and 3 wait in 'w', run 7, stage split_reduce");
  REQUIRE(diagnosis.evidence[0] == "rank 0: 'w', run 7 (oktopk, 1000 float32), stage split_reduce, has waited 1000 ms for rank 2");
  REQUIRE(diagnosis.evidence.back() ==
          "first error, on rank 0: rank 0 waited 1.0 s without progress; in flight: w, run 7: exchange; awaits [x]");
  dumps.unreadable.push_back(2);
  REQUIRE_THAT(diagnose(dumps).verdict, !ContainsSubstring("frozen"));
  REQUIRE_THAT(diagnose(dumps).evidence[3], ContainsSubstring("rank 2 wrote a dump that cannot be read"));
}

TEST_CASE("diagnosis: ranks that are behind, came never, wait elsewhere, or came late") {
  Dumps dumps = four_ranks(3);
  dumps.ranks[3].calls.pop_back();
  REQUIRE(
      diagnose(dumps).verdict ==
      "rank 3 is behind: ranks 0, 1 and 2 wait in 'w', run 7, stage split_reduce; the last run of it on rank 3 is 6, completed");
  dumps.ranks[3].calls = {call_of("v", 6, "completed")};
  REQUIRE_THAT(diagnose(dumps).verdict, ContainsSubstring("rank 3 is behind") && ContainsSubstring("rank 3 has never started one"));
  dumps.ranks[3].calls = {call_of("v", 8, "started", 0, 1000)};
  dumps.ranks[3].calls[0].tag = 4;
  REQUIRE_THAT(diagnose(dumps).verdict,
               ContainsSubstring("rank 3 waits in 'v', run 8, stage split_reduce: all ranks must make the same runs"));
  dumps = four_ranks(1);
  dumps.ranks[1].calls.back().created_ns += 2500 * ms;
  REQUIRE(diagnose(dumps).verdict ==
          "rank 1 was late: it started 'w', run 7 2.5 s after the first rank, and the deadline is 1.0 s (WEIR_TIMEOUT)");
}

TEST_CASE("diagnosis: all in one run") {
  REQUIRE(diagnose(four_ranks(2)).verdict ==
          "ranks 0 to 3 wait in 'w', run 7, stage split_reduce, most of all for rank 2, which does not wait for a message");
  // after the deadline, too
  Dumps dumps = four_ranks(2);
  for (RecordedRank& rank : dumps.ranks) {
    rank.calls.back().state = "failed";
    rank.calls.back().status = "WEIR_ERR_TIMEOUT";
  }
  REQUIRE_THAT(diagnose(dumps).verdict, ContainsSubstring("'w', run 7, stage split_reduce, most of all for rank 2"));
}

TEST_CASE("diagnosis: another configuration of the same tag and run") {
  for (const int field : {0, 1, 2}) {
    Dumps dumps = four_ranks(2);
    RecordedCall& odd = dumps.ranks[1].calls.back();
    if (field == 0) odd.count = 2000;
    if (field == 1) odd.type = "float64";
    if (field == 2) odd.algorithm = "dense_ring";
    REQUIRE_THAT(diagnose(dumps).verdict,
                 ContainsSubstring("rank 1 runs 'w' of ") &&
                     ContainsSubstring("the others 'w' of 1000 float32 by oktopk: run 7 must be the same"));
  }
  Dumps dumps = four_ranks(2);
  dumps.ranks[1].calls.back().name = "v";  // plans made in another order
  REQUIRE_THAT(diagnose(dumps).verdict, ContainsSubstring("rank 1 runs 'v' of 1000"));
}

TEST_CASE("diagnosis: a run that broke off on one rank") {
  Dumps dumps = four_ranks(2);
  for (RecordedRank& rank : dumps.ranks) rank.why = "'w', rank 1: out of memory in the middle of a call";
  REQUIRE(diagnose(dumps).verdict ==
          "rank 1 broke off in 'w', run 7, stage split_reduce: 'w', rank 1: out of memory in the middle of a call");
}

TEST_CASE("diagnosis: dumps that a signal has asked for") {
  Dumps dumps = four_ranks(2);
  for (RecordedRank& rank : dumps.ranks) {
    rank.why = "a signal has asked for it";
    rank.calls.back().awaited_ms = 3;
  }
  Diagnosis diagnosis = diagnose(dumps);
  REQUIRE_FALSE(diagnosis.wrong);
  REQUIRE(
      diagnosis.verdict ==
      "nothing is wrong in the dumps of 4 of 4 ranks, which a signal has asked for: 4 runs in flight, the longest wait so far 3.0 "
      "ms (rank 0 for rank 2 in 'w', run 7, stage split_reduce)");
  for (RecordedRank& rank : dumps.ranks) rank.calls.back().awaited_ms = 70000;
  diagnosis = diagnose(dumps);
  REQUIRE(diagnosis.wrong);
  REQUIRE_THAT(diagnosis.verdict, ContainsSubstring("wait in 'w', run 7") && ContainsSubstring("for rank 2"));
}

TEST_CASE("diagnosis: thousands of ranks are a page at most") {
  Dumps dumps;
  for (int rank = 0; rank < 3000; ++rank) {
    dumps.ranks.push_back(rank_of(rank, {call_of("w", 7, "started", 3001, 1000)}));
    dumps.ranks.back().ranks = 4000;
  }
  const Diagnosis diagnosis = diagnose(dumps);
  REQUIRE(diagnosis.evidence.size() < 30);
  REQUIRE(diagnosis.verdict.size() < 300);
}

TEST_CASE("dumps: what cannot be read is said") {
  for (const std::string text : {"", "{", "[]", "{}", R"({"weir":{}})", R"({"weir":{"version":"0.1.0"},"entries":[]})"})
    REQUIRE_THROWS_WITH(parse_dump(text), ContainsSubstring("it is "));
  const Folder folder;
  folder.write("weir-dump.c0.rank0.json", "{\"weir\"");
  Remarks remarks;
  REQUIRE_THROWS_WITH(
      read_dumps(rank_files(folder.path(), "dump", {}, remarks), remarks),
      ContainsSubstring("none of the dumps can be read; weir-dump.c0.rank0.json cannot be read: it is not JSON: cut short"));
}

}  // namespace weir::cli
