// trace_clock.hpp: how far the steady clocks of ranks are apart, by collectives that all ranks were inside of at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/trace_files.hpp"

namespace weir::cli {

struct ClockOffset {
  enum class From { reference, rounds, calendar };
  int rank = 0;
  std::int64_t offset_ns = 0;      ///< this rank's clock minus that of the first rank
  std::int64_t half_width_ns = 0;  ///< the truth is within so much of it; by the calendar: not known
  From from = From::reference;
};

/// No rank leaves a round before every rank has entered it, which bounds the offset from both sides. Ranks of one host read one
/// clock. By the calendar where there are no rounds, or they contradict each other.
[[nodiscard]] std::vector<ClockOffset> align_clocks(std::span<const TraceInfo> ranks);

/// What to add to the times of each rank's events, so that all count from the earliest start of a trace.
[[nodiscard]] std::vector<std::int64_t> shifts_of(std::span<const TraceInfo> ranks, std::span<const ClockOffset> offsets);

/// "rank 1: 12.5 us ahead of rank 0, within 3.0 us"
[[nodiscard]] std::string describe(const ClockOffset& offset, int reference);

}  // namespace weir::cli
