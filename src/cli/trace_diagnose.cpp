#include "cli/trace_diagnose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cli/report.hpp"
namespace weir::cli {
namespace {

constexpr double long_wait_ms = 1000;  // for dumps that were only requested, in which shorter waits are normal
constexpr std::size_t most_evidence = 24;

/// Identifies a run of a plan or table call on any rank.
struct Where {
  int tag = 0;
  std::string name;
  std::int64_t run = 0;
  auto operator<=>(const Where&) const = default;  // NOLINT(modernize-use-nullptr): in compiler-generated code
};

Where where(const RecordedCall& call) { return {call.tag, call.name, call.run}; }
std::string text_of(const Where& where) { return fmt::format("'{}', run {}", where.name, where.run); }

/// Returns the first line of a reason. If that is a heading, also returns the line below it.
std::string first_line(const std::string& text) {
  const std::size_t end = text.find('\n');
  std::string line = text.substr(0, end);
  if (end == std::string::npos || !line.ends_with(':')) return line;
  const std::size_t begin = text.find_first_not_of(' ', end + 1);
  return begin == std::string::npos ? line : line + ' ' + text.substr(begin, text.find('\n', begin) - begin);
}

/// Returns whether a run waits, or has waited until its deadline.
bool is_stuck(const RecordedRank& rank, const RecordedCall& call) {
  if (call.failed()) return call.status == "WEIR_ERR_TIMEOUT";
  return call.in_flight() && (!rank.was_asked_for() || call.awaited_ms >= long_wait_ms);
}

/// Returns the latest run of each call, newest first. Earlier runs have ended.
std::vector<const RecordedCall*> latest_calls(const RecordedRank& rank) {
  std::vector<const RecordedCall*> latest;
  for (std::size_t i = rank.calls.size(); i-- > 0;) {
    const RecordedCall& call = rank.calls[i];
    const bool is_older = std::any_of(latest.begin(), latest.end(),
                                      [&](const RecordedCall* l) { return l->tag == call.tag && l->name == call.name; });
    if (!is_older) latest.push_back(&call);
  }
  return latest;
}

/// A rank's part in a run, in flight or ended.
struct Member {
  const RecordedRank* rank;
  const RecordedCall* call;
};

std::vector<int> ranks_of(const std::vector<Member>& members) {
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(member.rank->rank);
  return ranks;
}

/// Returns what most of the members have.
template <class Value>
auto most_common(const std::vector<Member>& members, Value&& value) {
  std::map<decltype(value(members.front())), int> votes;
  for (const Member& member : members) ++votes[value(member)];
  return std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
}

std::string in_which_stage(const std::vector<Member>& members) {
  return most_common(members, [](const Member& m) { return m.call->stage; });
}

/// The data from which a verdict is found.
class Case {
 public:
  explicit Case(const Dumps& dumps) : dumps_(dumps) {
    std::vector<int> present = dumps.unreadable;
    for (const RecordedRank& rank : dumps.ranks) {
      present.push_back(rank.rank);
      for (const RecordedCall* call : latest_calls(rank)) {
        if (is_stuck(rank, *call)) stuck_[where(*call)].push_back({&rank, call});
      }
    }
    silent_ = missing_ranks(present, dumps.ranks.front().ranks);
    const auto weight = [](const auto& entry) {
      double ms = 0;
      for (const Member& member : entry.second) ms = std::max(ms, member.call->awaited_ms);
      return std::pair(entry.second.size(), ms);
    };
    const auto most =
        std::max_element(stuck_.begin(), stuck_.end(), [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
    if (most == stuck_.end()) return;
    focus_ = most->first;
    waiting_ = most->second;
  }

  Diagnosis diagnose() {
    for (const auto attempt : {&Case::silent_ranks, &Case::different_configuration, &Case::broken_run, &Case::behind,
                               &Case::late_start, &Case::longest_awaited}) {
      if ((this->*attempt)()) {
        result_.wrong = true;
        break;
      }
    }
    if (!result_.wrong) nothing_wrong();
    add_evidence();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::string who_waits() const {
    return fmt::format("{} {} in {}, stage {}", list_of_ranks(ranks_of(waiting_)), waiting_.size() == 1 ? "waits" : "wait",
                       text_of(*focus_), in_which_stage(waiting_));
  }

  bool silent_ranks() {
    if (silent_.empty() || !focus_) return false;
    const bool one = silent_.size() == 1;
    result_.verdict = fmt::format("{} wrote no dump: {} frozen, dead, or busy outside Weir; {}", list_of_ranks(silent_),
                                  one ? "it is" : "they are", who_waits());
    return true;
  }

  bool different_configuration() {
    const auto configuration = [](const Member& m) {
      return fmt::format("'{}' of {} {} by {}", m.call->name, m.call->count, m.call->type, m.call->algorithm);
    };
    for (const auto& [number, members] : runs_of_tags()) {
      const std::string usual = most_common(members, configuration);
      for (const Member& member : members) {
        const std::string its = configuration(member);
        if (its == usual) continue;
        result_.verdict = fmt::format("rank {} runs {}, the others {}: run {} must be the same on all ranks", member.rank->rank,
                                      its, usual, number.second);
        return true;
      }
    }
    return false;
  }

  /// Returns the latest runs of plans that have not ended well, by tag and number.
  [[nodiscard]] std::map<std::pair<int, std::int64_t>, std::vector<Member>> runs_of_tags() const {
    std::map<std::pair<int, std::int64_t>, std::vector<Member>> runs;
    for (const RecordedRank& rank : dumps_.ranks) {
      for (const RecordedCall* call : latest_calls(rank)) {
        if (!call->algorithm.empty() && call->state != "completed") runs[{call->tag, call->run}].push_back({&rank, call});
      }
    }
    return runs;
  }

  /// Checks for an error other than a deadline. The rank where it happened names itself in its reason.
  bool broken_run() {
    for (const RecordedRank& rank : dumps_.ranks) {
      if (rank.was_asked_for() || rank.timed_out() || rank.why.find(fmt::format("', rank {}: ", rank.rank)) == std::string::npos)
        continue;
      result_.verdict = fmt::format("rank {} broke off {}", rank.rank, first_line(rank.why));
      for (const RecordedCall* call : latest_calls(rank)) {
        if (call->state != "completed" && rank.why.starts_with("'" + call->name + "'"))
          result_.verdict = fmt::format("rank {} broke off in {}, stage {}: {}", rank.rank, text_of(where(*call)), call->stage,
                                        first_line(rank.why));
      }
      return true;
    }
    return false;
  }

  bool behind() {
    if (!focus_) return false;
    std::vector<int> absent;
    std::string doing;
    for (const RecordedRank& rank : dumps_.ranks) {
      if (find(rank, *focus_) != nullptr) continue;
      absent.push_back(rank.rank);
      if (doing.empty()) doing = what_else(rank);
    }
    if (absent.empty()) return false;
    result_.verdict =
        fmt::format("{} {} behind: {}; {}", list_of_ranks(absent), absent.size() == 1 ? "is" : "are", who_waits(), doing);
    return true;
  }

  [[nodiscard]] static const RecordedCall* find(const RecordedRank& rank, const Where& where) {
    const auto call = std::find_if(rank.calls.rbegin(), rank.calls.rend(), [&](const RecordedCall& c) {
      return c.tag == where.tag && c.name == where.name && c.run == where.run;
    });
    return call == rank.calls.rend() ? nullptr : &*call;
  }

  /// Returns what a rank does instead of the run in focus.
  [[nodiscard]] std::string what_else(const RecordedRank& rank) const {
    for (const RecordedCall* call : latest_calls(rank)) {
      if (is_stuck(rank, *call))
        return fmt::format("rank {} waits in {}, stage {}: all ranks must make the same runs, blocking ones in the same order",
                           rank.rank, text_of(where(*call)), call->stage);
    }
    for (const RecordedCall* call : latest_calls(rank)) {
      if (call->tag == focus_->tag && call->name == focus_->name)
        return fmt::format("the last run of it on rank {} is {}, {}", rank.rank, call->run, call->state);
    }
    return fmt::format("rank {} has never started one", rank.rank);
  }

  /// Checks whether a rank started the run when the others had given up.
  bool late_start() {
    if (!focus_) return false;
    const RecordedRank* late = nullptr;
    std::int64_t first = 0, last = 0;
    double timeout_ms = 0;
    for (const RecordedRank& rank : dumps_.ranks) {
      const RecordedCall& call = *find(rank, *focus_);
      if (late == nullptr || call.created_ns < first) first = call.created_ns;
      if (late == nullptr || call.created_ns > last) {
        last = call.created_ns;
        late = &rank;
        timeout_ms = call.timeout_ms;
      }
    }
    const double late_ms = static_cast<double>(last - first) * 1e-6;
    if (late_ms < timeout_ms / 2) return false;
    result_.verdict =
        fmt::format("rank {} was late: it started {} {:.1f} s after the first rank, and the deadline is {:.1f} s (WEIR_TIMEOUT)",
                    late->rank, text_of(*focus_), late_ms * 1e-3, timeout_ms * 1e-3);
    return true;
  }

  /// Finds the rank that is waited for longest. All ranks are in the same run.
  bool longest_awaited() {
    if (!focus_) return false;
    std::map<int, double> awaited;
    for (const Member& member : waiting_) {
      if (member.call->awaited_rank >= 0) awaited[member.call->awaited_rank] += member.call->awaited_ms;
    }
    if (awaited.empty()) {
      result_.verdict = who_waits() + ", for no other rank's message";
      return true;
    }
    const int most =
        std::max_element(awaited.begin(), awaited.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
    const auto itself = std::find_if(waiting_.begin(), waiting_.end(), [&](const Member& m) { return m.rank->rank == most; });
    const std::string its = itself == waiting_.end() || itself->call->awaited_rank < 0
                                ? "which does not wait for a message"
                                : fmt::format("which waits for rank {}", itself->call->awaited_rank);
    result_.verdict = fmt::format("{}, most of all for rank {}, {}", who_waits(), most, its);
    return true;
  }

  void nothing_wrong() {
    std::vector<Member> in_flight;
    for (const RecordedRank& rank : dumps_.ranks) {
      for (const RecordedCall& call : rank.calls) {
        if (call.in_flight()) in_flight.push_back({&rank, &call});
      }
    }
    const auto longest = std::max_element(in_flight.begin(), in_flight.end(),
                                          [](const Member& a, const Member& b) { return a.call->awaited_ms < b.call->awaited_ms; });
    const RecordedRank& first = dumps_.ranks.front();
    result_.verdict =
        fmt::format("nothing is wrong in the dumps of {} of {} ranks, {}: {} in flight", dumps_.ranks.size(), first.ranks,
                    first.was_asked_for() ? "which " + first.why.substr(0, first.why.rfind(" it")) : first_line(first.why),
                    count_text(in_flight.size(), "run"));
    if (longest != in_flight.end() && longest->call->awaited_rank >= 0)
      result_.verdict +=
          fmt::format(", the longest wait so far {:.1f} ms (rank {} for rank {} in {}, stage {})", longest->call->awaited_ms,
                      longest->rank->rank, longest->call->awaited_rank, text_of(where(*longest->call)), longest->call->stage);
    if (!silent_.empty()) result_.verdict += fmt::format("; {} wrote none", list_of_ranks(silent_));
  }

  void add_evidence() {
    std::set<const RecordedRank*> stuck;
    for (const auto& [run, members] : stuck_) {
      for (const Member& member : members) {
        stuck.insert(member.rank);
        const RecordedCall& call = *member.call;
        std::string line = fmt::format("rank {}: {}", member.rank->rank, text_of(run));
        if (!call.algorithm.empty()) line += fmt::format(" ({}, {} {})", call.algorithm, call.count, call.type);
        line += fmt::format(", stage {}", call.stage);
        if (call.awaited_rank >= 0) line += fmt::format(", has waited {:.0f} ms for rank {}", call.awaited_ms, call.awaited_rank);
        evidence(line);
      }
    }
    for (const RecordedRank& rank : dumps_.ranks) {
      if (!stuck.contains(&rank)) evidence(last_word(rank));
    }
    for (const int rank : silent_) evidence(fmt::format("rank {} wrote no dump", rank));
    for (const int rank : dumps_.unreadable) evidence(fmt::format("rank {} wrote a dump that cannot be read", rank));
    const auto first = std::min_element(dumps_.ranks.begin(), dumps_.ranks.end(), [](const RecordedRank& a, const RecordedRank& b) {
      return std::pair(a.was_asked_for(), a.unix_ns) < std::pair(b.was_asked_for(), b.unix_ns);
    });
    if (!first->was_asked_for()) evidence(fmt::format("first error, on rank {}: {}", first->rank, first_line(first->why)));
    if (left_ > 0) result_.evidence.push_back(fmt::format("and {} lines like these", left_));
  }

  [[nodiscard]] static std::string last_word(const RecordedRank& rank) {
    if (rank.calls.empty()) return fmt::format("rank {}: no calls", rank.rank);
    const RecordedCall& last = rank.calls.back();
    std::string line = fmt::format("rank {}: last call {}, {}", rank.rank, text_of(where(last)), last.state);
    if (last.failed()) line += fmt::format(" with {} in stage {}", last.status, last.stage);
    return line;
  }

  void evidence(std::string line) {
    if (result_.evidence.size() < most_evidence)
      result_.evidence.push_back(std::move(line));
    else
      ++left_;
  }

  const Dumps& dumps_;
  std::vector<int> silent_;  // ranks without a dump
  std::map<Where, std::vector<Member>> stuck_;
  std::optional<Where> focus_;  // the run that most ranks are stuck in
  std::vector<Member> waiting_;
  Diagnosis result_;
  int left_ = 0;
};

}  // namespace

Diagnosis diagnose(const Dumps& dumps) { return Case(dumps).diagnose(); }

}  // namespace weir::cli
