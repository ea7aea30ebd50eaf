// trace_merge.hpp: one trace of all ranks on one clock.
#pragma once

#include <filesystem>

#include "cli/trace_clock.hpp"

namespace weir::cli {

/// `event` of a rank as it is among those of all `ranks`: its time moved by `shift_ns`, its messages numbered apart from others'.
void move_event(JsonValue& event, std::int64_t shift_ns, int rank, int ranks);

/// Writes `output`, which is whole or as it was. Throws std::runtime_error.
void merge_traces(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets, const std::filesystem::path& output,
                  Remarks& remarks);

}  // namespace weir::cli
