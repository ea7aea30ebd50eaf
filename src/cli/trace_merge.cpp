#include "cli/trace_merge.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/json.hpp"

namespace weir::cli {
namespace {

const char* name_of(ClockOffset::From from) {
  switch (from) {
    case ClockOffset::From::reference:
      return "the same clock";
    case ClockOffset::From::rounds:
      return "rounds";
    case ClockOffset::From::calendar:
      return "calendar";
  }
  return "";
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

void move_event(JsonValue& event, std::int64_t shift_ns, int rank, int ranks) {
  if (const auto time = event.view().find("ts")) {
    const std::int64_t moved = std::llround(time->number() * 1e3) + shift_ns;
    event.set("ts", static_cast<double>(moved) / 1e3);
  }
  if (const auto id = event.view().find("id")) event.set("id", id->integer() * ranks + rank);
}

void merge_traces(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets, const std::filesystem::path& output,
                  Remarks& remarks) {
  const std::vector<std::int64_t> shifts = shifts_of(traces, offsets);
  std::error_code ignored;
  for (const TraceInfo& trace : traces) {
    if (std::filesystem::equivalent(trace.path, output, ignored))
      throw std::runtime_error(fmt::format("'{}' is one of the traces: choose another name for the merged one", output.string()));
  }
  // Keep a device, a pipe or a link as it is. A file is replaced, so it is complete at any moment.
  const auto kind = std::filesystem::symlink_status(output, ignored).type();
  const bool replaces = kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
  std::filesystem::path beside = output;
  if (replaces) beside += ".tmp";
  std::ofstream out(beside);
  out << "[\n" << about(traces, offsets).view().dump();
  for (std::size_t i = 0; i < traces.size(); ++i) {
    TraceReader reader(traces[i].path);
    while (reader.next()) {
      try {
        move_event(reader.event(), shifts[i], traces[i].rank, traces[i].ranks);
      } catch (const JsonError&) {
        remarks.push_back(fmt::format("{} has an event that Weir has not written: left out", traces[i].path.filename().string()));
        continue;
      }
      out << ",\n" << reader.event().view().dump();
    }
    if (const std::string damage = reader.damage(); !damage.empty()) remarks.push_back(damage);
  }
  out << "\n]\n";
  out.close();
  const int reason = errno;
  std::error_code error;
  if (out && replaces) std::filesystem::rename(beside, output, error);
  if (out && !error) return;
  if (replaces) std::filesystem::remove(beside, ignored);
  throw std::runtime_error(
      fmt::format("the merged trace '{}' cannot be written: {}", output.string(), error ? error.message() : std::strerror(reason)));
}

}  // namespace weir::cli
