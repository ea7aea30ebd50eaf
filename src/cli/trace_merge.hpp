// trace_merge.hpp: computes the offsets between the steady clocks of ranks, from collectives that all ranks were in at the same
// time, and merges the traces of all ranks into one on a common clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/trace_files.hpp"

namespace weir::cli {

struct ClockOffset {
  enum class From { reference, rounds, calendar };
  int rank = 0;
  std::int64_t offset_ns = 0;      ///< this rank's clock minus that of the first rank
  std::int64_t half_width_ns = 0;  ///< bound of the error of offset_ns; not known by the calendar
  From from = From::reference;
};

/// Returns the offsets of clocks. No rank leaves a round before every rank has entered it, which bounds the offset from both sides.
/// Ranks of one host read one clock. Uses the calendar if there are no rounds, or if they contradict each other.
[[nodiscard]] std::vector<ClockOffset> align_clocks(std::span<const TraceInfo> ranks);

/// Returns what to add to the times of each rank's events, so that all times count from the earliest start of a trace.
[[nodiscard]] std::vector<std::int64_t> shifts_of(std::span<const TraceInfo> ranks, std::span<const ClockOffset> offsets);

/// Returns for example "rank 1: 12.5 us ahead of rank 0, within 3.0 us".
[[nodiscard]] std::string describe(const ClockOffset& offset, int reference);

/// Writes `output`, which is either complete or unchanged. Throws std::runtime_error.
void merge_traces(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets, const std::filesystem::path& output,
                  Remarks& remarks);

}  // namespace weir::cli
