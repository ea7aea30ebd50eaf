#include "cli/trace_merge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "cli/report.hpp"

namespace weir::cli {
namespace {

/// Ranks that read one clock, as indices into the list.
using Group = std::vector<std::size_t>;

/// Returns round `round` over all ranks of the group: the last time of entering, and the first time of leaving.
ClockRound common_round(std::span<const TraceInfo> ranks, const Group& group, std::size_t round) {
  ClockRound common{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  for (const std::size_t place : group) {
    common.entered = std::max(common.entered, ranks[place].rounds[round].entered);
    common.left = std::min(common.left, ranks[place].rounds[round].left);
  }
  return common;
}

std::size_t common_rounds(std::span<const TraceInfo> ranks, const Group& group) {
  std::size_t rounds = ranks[group.front()].rounds.size();
  for (const std::size_t place : group) rounds = std::min(rounds, ranks[place].rounds.size());
  return rounds;
}

/// Checks the rounds: hosts of the same name may be two machines, and processes of one machine may be given different clocks.
bool reads_one_clock(std::span<const TraceInfo> ranks, const Group& group) {
  for (std::size_t round = 0; round < common_rounds(ranks, group); ++round) {
    const ClockRound common = common_round(ranks, group, round);
    if (common.entered > common.left) return false;
  }
  return true;
}

/// Returns groups of ranks. The first rank is in the first group.
std::vector<Group> groups_of(std::span<const TraceInfo> ranks) {
  std::map<std::string, Group> by_host;
  for (std::size_t place = 0; place < ranks.size(); ++place) by_host[ranks[place].host].push_back(place);
  std::vector<Group> groups;
  for (const auto& [host, group] : by_host) {
    if (reads_one_clock(ranks, group)) {
      groups.push_back(group);
    } else {
      for (const std::size_t place : group) groups.push_back({place});
    }
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::int64_t steady_minus_calendar(const TraceInfo& info) { return info.start_ns - info.unix_ns; }

ClockOffset offset_between(std::span<const TraceInfo> ranks, const Group& reference, const Group& group) {
  std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
  const std::size_t rounds = std::min(common_rounds(ranks, reference), common_rounds(ranks, group));
  for (std::size_t round = 0; round < rounds; ++round) {
    const ClockRound here = common_round(ranks, reference, round), there = common_round(ranks, group, round);
    low = std::max(low, there.entered - here.left);
    high = std::min(high, there.left - here.entered);
  }
  if (rounds > 0 && low <= high) return {0, low + (high - low) / 2, (high - low + 1) / 2, ClockOffset::From::rounds};
  return {0, steady_minus_calendar(ranks[group.front()]) - steady_minus_calendar(ranks[reference.front()]), 0,
          ClockOffset::From::calendar};
}

const char* name_of(ClockOffset::From from) {
  return from == ClockOffset::From::rounds ? "rounds" : from == ClockOffset::From::calendar ? "calendar" : "the same clock";
}

/// Returns the header of the merged file.
JsonValue about(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets) {
  JsonValue clocks = JsonValue::array();
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const bool bounded = offsets[i].from != ClockOffset::From::calendar;
    clocks.push_back({{"rank", offsets[i].rank},
                      {"host", traces[i].host},
                      {"offset_ns", offsets[i].offset_ns},
                      {"half_width_ns", bounded ? JsonValue(offsets[i].half_width_ns) : JsonValue()},
                      {"from", name_of(offsets[i].from)}});
  }
  const TraceInfo& first = traces.front();
  return {{"name", "weir_merged"},
          {"ph", "M"},
          {"pid", first.rank + 1},
          {"args",
           {{"version", first.version},
            {"run", first.run},
            {"communicator", first.communicator},
            {"ranks", first.ranks},
            {"clocks", clocks}}}};
}

}  // namespace

std::vector<ClockOffset> align_clocks(std::span<const TraceInfo> ranks) {
  std::vector<ClockOffset> offsets(ranks.size());
  const std::vector<Group> groups = groups_of(ranks);
  for (const Group& group : groups) {
    ClockOffset offset;
    if (group != groups.front()) offset = offset_between(ranks, groups.front(), group);
    for (const std::size_t place : group) {
      offset.rank = ranks[place].rank;
      offsets[place] = offset;
    }
  }
  return offsets;
}

std::vector<std::int64_t> shifts_of(std::span<const TraceInfo> ranks, std::span<const ClockOffset> offsets) {
  std::vector<std::int64_t> shifts;
  for (std::size_t i = 0; i < ranks.size(); ++i) shifts.push_back(ranks[i].start_ns - offsets[i].offset_ns);
  if (shifts.empty()) return shifts;
  const std::int64_t first = *std::min_element(shifts.begin(), shifts.end());
  for (std::int64_t& shift : shifts) shift -= first;
  return shifts;
}

std::string describe(const ClockOffset& offset, int reference) {
  if (offset.rank == reference) return fmt::format("rank {}: all others are set by its clock", offset.rank);
  if (offset.from == ClockOffset::From::reference) return fmt::format("rank {}: the same clock", offset.rank);
  const double us = static_cast<double>(std::abs(offset.offset_ns)) * 1e-3;
  const char* way = offset.offset_ns < 0 ? "behind" : "ahead of";
  if (offset.from == ClockOffset::From::calendar)
    return fmt::format("rank {}: {:.1f} us {} rank {} by the hosts' calendar clocks, which may be off by milliseconds", offset.rank,
                       us, way, reference);
  return fmt::format("rank {}: {:.1f} us {} rank {}, within {:.1f} us", offset.rank, us, way, reference,
                     static_cast<double>(offset.half_width_ns) * 1e-3);
}

void merge_traces(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets, const std::filesystem::path& output,
                  Remarks& remarks) {
  const std::vector<std::int64_t> shifts = shifts_of(traces, offsets);
  std::error_code ignored;
  for (const TraceInfo& trace : traces) {
    if (std::filesystem::equivalent(trace.path, output, ignored))
      give_up("'{}' is one of the traces: choose another name for the merged one", output.string());
  }
  // Keep a device, a pipe or a link as it is. A file is replaced, so it is complete at any moment.
  const auto kind = std::filesystem::symlink_status(output, ignored).type();
  const bool replaces = kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
  std::filesystem::path beside = output;
  if (replaces) beside += ".tmp";
  std::ofstream out(beside);
  out << "[\n" << about(traces, offsets).view().dump();
  for (std::size_t i = 0; i < traces.size(); ++i)
    read_events(traces[i], shifts[i], remarks, [&](const JsonValue& event) { out << ",\n" << event.view().dump(); });
  out << "\n]\n";
  out.close();
  const int reason = errno;
  std::error_code error;
  if (out && replaces) std::filesystem::rename(beside, output, error);
  if (out && !error) return;
  if (replaces) std::filesystem::remove(beside, ignored);
  give_up("the merged trace '{}' cannot be written: {}", output.string(), error ? error.message() : std::strerror(reason));
}

}  // namespace weir::cli
