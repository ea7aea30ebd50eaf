#include "cli/trace_summary.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "cli/report.hpp"

namespace weir::cli {
namespace {

constexpr std::int64_t negligible = 1000;  // nanoseconds, between two calls of test()
constexpr double much_slower = 1.5;        // than the others on average
constexpr double worth_telling = 0.05;     // share of the time with runs in flight
constexpr int caller_row = Tracer::caller_row, setup_row = Tracer::setup_row;

double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// Converts microseconds of a trace to nanoseconds.
std::int64_t nanoseconds(const JsonView& microseconds) { return std::llround(microseconds.number() * 1e3); }

/// Returns a text of an event, or "" if it has none.
std::string text_of(const JsonView& event, const char* name) {
  const std::optional<JsonView> text = event.find(name);
  return text ? text->string() : "";
}

int row_of(const JsonView& event) { return static_cast<int>(event.at("tid").integer()); }

/// Returns the time that lies both in `some`, which is disjoint and ascending, and in `others`.
template <class Interval>
std::int64_t common_time(const std::vector<Interval>& some, std::vector<Interval> others) {
  std::sort(others.begin(), others.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t sum = 0, counted = std::numeric_limits<std::int64_t>::min();  // end of the time counted so far
  auto one = some.begin();
  for (const Interval& other : others) {
    while (one != some.end() && one->end <= other.begin) ++one;
    for (auto at = one; at != some.end() && at->begin < other.end; ++at) {
      const std::int64_t begin = std::max({at->begin, other.begin, counted}), end = std::min(at->end, other.end);
      if (begin < end) sum += end - begin;
    }
    counted = std::max(counted, other.end);
  }
  return sum;
}

}  // namespace

void Summarizer::begin_rank(int rank) {
  end_rank();
  summary_.ranks.emplace_back().rank = rank;
}

void Summarizer::take(const JsonValue& whole) {
  const JsonView event = whole.view();
  const std::string phase = event.at("ph").string(), name = text_of(event, "name"), category = text_of(event, "cat");
  const auto argument = [&](const char* of) { return event.at("args").at(of); };
  if (phase == "b") begun_ = whole;  // Weir writes both halves of a message together
  if (phase == "M" && name == "thread_name") return add_row(row_of(event), argument("name").string());
  if (phase != "i" && phase != "X" && phase != "e") return;
  Interval time{nanoseconds(event.at("ts")), nanoseconds(event.at("ts"))};
  if (phase == "X") time.end += nanoseconds(event.at("dur"));
  RankSummary& rank = summary_.ranks.back();
  if (phase == "i" && category == "test") {
    tested_ += argument("ns").integer();
    rank.waited_seconds += seconds_of(argument("ns").integer());
  } else if (phase == "i") {
    std::int64_t left_out = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), left_out);
    if (error != std::errc{} || std::string_view(end) != " events left out") return;
    rank.left_out += left_out;
  } else if (category == "run") {
    take_run(row_of(event), time, event.at("args"));
  } else if (category == "wait") {
    take_wait(time, argument("for").string());
  } else if (category == "stage") {
    take_stage(row(row_of(event)), time, name);
  } else if (const auto id = begun_.view().find("id"); phase == "e" && id && *id == event.at("id")) {
    time.begin = nanoseconds(begun_.view().at("ts"));
    take_message(row(row_of(event)), time, begun_.view());
  } else {
    return;
  }
  first_ = any_ ? std::min(first_, time.begin) : time.begin;
  last_ = any_ ? std::max(last_, time.end) : time.end;
  any_ = true;
}

/// Matches rows by name and by index among equal names: ranks make plans in the same order.
void Summarizer::add_row(int number, const std::string& name) {
  Row& row = rows_[number];
  row.name = name;
  const auto [place, fresh] = calls_.try_emplace({name, rows_of_name_[name]++}, nodes_.size());
  if (fresh) nodes_.emplace_back().name = name;
  row.node = place->second;
}

Summarizer::Row& Summarizer::row(int number) {
  if (!rows_.contains(number)) add_row(number, "row " + std::to_string(number));
  return rows_[number];
}

/// A stage comes after the stages inside it: those within its time are part of it.
void Summarizer::take_stage(Row& row, const Interval& time, const std::string& name) {
  for (auto message = row.messages.rbegin(); message != row.messages.rend() && message->end >= time.begin; ++message) {
    if (message->stage.empty()) message->stage = name;
  }
  Span span{time.begin, time.end, name, {}};
  const auto inner = std::find_if(row.stages.begin(), row.stages.end(), [&](const Span& s) { return s.begin >= time.begin; });
  span.inner.assign(std::make_move_iterator(inner), std::make_move_iterator(row.stages.end()));
  row.stages.erase(inner, row.stages.end());
  row.stages.push_back(std::move(span));
}

/// A run waits for one message after another. For this message, it has waited since the previous one was done.
void Summarizer::take_message(Row& row, const Interval& time, const JsonView& begun) {
  const JsonView about = begun.at("args");
  if (begun.at("name").string().starts_with("to ")) {
    Sent& sent = sent_[about.at("level").string()];
    ++sent.messages;
    sent.bytes[summary_.ranks.back().rank] += about.at("bytes").integer();
  }
  const std::int64_t before = row.messages.empty() ? time.begin : row.messages.back().end;
  const auto peer = static_cast<int>(about.at("peer").integer());
  row.messages.push_back({std::min(std::max(time.begin, before), time.end), time.end, peer, {}});
}

void Summarizer::take_run(int number, const Interval& time, const JsonView& about) {
  Row& row = this->row(number);
  nodes_[row.node].seconds.push_back(static_cast<float>(seconds_of(time.end - time.begin)));
  if (about.at("failed").boolean()) ++nodes_[row.node].failed;
  add(row.node, row.stages);
  row.stages.clear();
  // The work of start() itself, mostly selection, comes before the first message.
  if (!row.messages.empty()) busy_.push_back({time.begin, row.messages.front().begin});
  row.previous = std::exchange(row.messages, {});
  row.run = about.at("run").integer();
  if (number == setup_row) return;

  Start& start = starts_[row.node][row.run];
  if (start.ranks == 0 || time.begin < start.first) start.first = time.begin;
  if (start.ranks == 0 || time.begin > start.last) {
    start.last = time.begin;
    start.last_rank = summary_.ranks.back().rank;
  }
  ++start.ranks;

  Interval flight = time;  // runs come in the order of their ends
  while (!in_flight_.empty() && in_flight_.back().end >= flight.begin) {
    flight.begin = std::min(flight.begin, in_flight_.back().begin);
    flight.end = std::max(flight.end, in_flight_.back().end);
    in_flight_.pop_back();
  }
  in_flight_.push_back(flight);
}

void Summarizer::take_wait(const Interval& time, const std::string& call) {
  RankSummary& rank = summary_.ranks.back();
  rank.waited_seconds += seconds_of(time.end - time.begin);
  if (!busy_.empty() && time.begin >= busy_.back().begin && time.begin - busy_.back().end < negligible)
    busy_.back().end = std::max(busy_.back().end, time.end);
  else
    busy_.push_back(time);
  WaitSummary wait{
      .seconds = seconds_of(time.end - time.begin), .at_seconds = seconds_of(time.begin), .rank = rank.rank, .call = call};
  for (const auto& [number, row] : rows_) {
    if (row.name != call || number == caller_row) continue;
    wait.run = row.run;
    blame(wait, time, row.previous);
    blame(wait, time, row.messages);
  }
  std::vector<WaitSummary>& waits = summary_.waits;
  const auto place = std::find_if(waits.begin(), waits.end(), [&](const WaitSummary& w) { return w.seconds < wait.seconds; });
  waits.insert(place, std::move(wait));
  if (waits.size() > most_waits) waits.pop_back();
}

/// Adds up how long each peer's message was waited for within `time`.
void Summarizer::blame(WaitSummary& wait, const Interval& time, const std::vector<Message>& messages) {
  for (auto message = messages.rbegin(); message != messages.rend() && message->end > time.begin; ++message) {
    const double waited = seconds_of(std::min(message->end, time.end) - std::max(message->begin, time.begin));
    if (waited <= 0 || message->peer < 0) continue;
    awaits_[message->peer] += waited;
    if (waited <= wait.peer_seconds) continue;
    wait.peer_seconds = waited;
    wait.peer = message->peer;
    wait.stage = message->stage;
  }
}

void Summarizer::add(std::size_t node, const std::vector<Span>& stages) {
  // Count a stage that occurs several times in a run as one.
  std::map<std::size_t, double> seconds;
  for (const Span& stage : stages) {
    const std::size_t place = child(node, stage.name);
    seconds[place] += seconds_of(stage.end - stage.begin);
    add(place, stage.inner);
  }
  for (const auto& [place, sum] : seconds) nodes_[place].seconds.push_back(static_cast<float>(sum));
}

std::size_t Summarizer::child(std::size_t node, const std::string& name) {
  for (const std::size_t place : nodes_[node].children) {
    if (nodes_[place].name == name) return place;
  }
  nodes_.push_back({.name = name, .depth = nodes_[node].depth + 1});
  nodes_[node].children.push_back(nodes_.size() - 1);
  return nodes_.size() - 1;
}

void Summarizer::end_rank() {
  if (summary_.ranks.empty()) return;
  RankSummary& rank = summary_.ranks.back();
  for (const Interval& flight : in_flight_) rank.in_flight_seconds += seconds_of(flight.end - flight.begin);
  if (rank.in_flight_seconds > 0) {
    const double busy = seconds_of(common_time(in_flight_, std::move(busy_)) + tested_);
    rank.overlap = std::max(0.0, 1 - busy / rank.in_flight_seconds);
  }
  for (const auto& [peer, seconds] : awaits_) {
    awaited_[peer] += seconds;
    if (seconds <= rank.awaits_most_seconds) continue;
    rank.awaits_most = peer;
    rank.awaits_most_seconds = seconds;
  }
  rows_.clear();
  rows_of_name_.clear();
  in_flight_.clear();
  busy_.clear();
  tested_ = 0;
  awaits_.clear();
}

void Summarizer::list_stages(std::size_t place, double whole, std::vector<StageSummary>& list) const {
  const Node& node = nodes_[place];
  if (node.seconds.empty()) return;
  const std::vector<double> seconds(node.seconds.begin(), node.seconds.end());
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (node.depth == 0) whole = total;
  list.push_back({.name = node.name,
                  .depth = node.depth,
                  .runs = std::ssize(seconds),
                  .median_seconds = median(seconds),
                  .total_seconds = total,
                  .share = whole > 0 ? total / whole : 0,
                  .failed = node.failed});
  for (const std::size_t inner : node.children) list_stages(inner, whole, list);
}

void Summarizer::compare_starts(TraceSummary& summary) const {
  const auto of_rank = [&](int rank) {
    return std::find_if(summary.ranks.begin(), summary.ranks.end(), [&](const RankSummary& r) { return r.rank == rank; });
  };
  for (const auto& [node, runs] : starts_) {
    for (const auto& [number, start] : runs) {
      if (start.ranks != ranks_ || ranks_ == 1) continue;
      ++summary.compared_runs;
      RankSummary& last = *of_rank(start.last_rank);
      ++last.began_last;
      last.late_seconds += seconds_of(start.last - start.first);
    }
  }
  for (const auto& [peer, seconds] : awaited_) {
    if (const auto rank = of_rank(peer); rank != summary.ranks.end()) rank->awaited_seconds = seconds;
  }
  const std::size_t ranks = summary.ranks.size();
  if (ranks < 2) return;
  const auto slowness = [&](const RankSummary& r) { return r.late_seconds + r.awaited_seconds / static_cast<double>(ranks - 1); };
  std::size_t slowest = 0;
  double sum = 0, in_flight = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    sum += slowness(summary.ranks[i]);
    in_flight += summary.ranks[i].in_flight_seconds;
    if (slowness(summary.ranks[i]) > slowness(summary.ranks[slowest])) slowest = i;
  }
  const double most = slowness(summary.ranks[slowest]), others = (sum - most) / static_cast<double>(ranks - 1);
  if (most > much_slower * others && most > worth_telling * in_flight / static_cast<double>(ranks)) summary.slowest = slowest;
}

TraceSummary Summarizer::finish() {
  end_rank();
  TraceSummary summary = std::exchange(summary_, {});
  summary.seconds = seconds_of(last_ - first_);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].depth == 0) list_stages(node, 0, summary.stages);
  }
  for (const auto& [level, sent] : sent_) {
    LevelSummary& line = summary.levels.emplace_back(LevelSummary{.level = level, .messages = sent.messages});
    for (const auto& [rank, bytes] : sent.bytes) {
      line.bytes += bytes;
      if (bytes <= line.busiest_bytes) continue;
      line.busiest_bytes = bytes;
      line.busiest_rank = rank;
    }
  }
  compare_starts(summary);
  return summary;
}

}  // namespace weir::cli
