// trace_merge.hpp: merges the traces of all ranks into one on a common clock.
#pragma once

#include <filesystem>

#include "cli/trace_clock.hpp"

namespace weir::cli {

/// Changes a rank's event for a trace of all `ranks`: moves its time by `shift_ns`, and gives its messages unique numbers.
void move_event(JsonValue& event, std::int64_t shift_ns, int rank, int ranks);

/// Writes `output`, which is either complete or unchanged. Throws std::runtime_error.
void merge_traces(std::span<const TraceInfo> traces, std::span<const ClockOffset> offsets, const std::filesystem::path& output,
                  Remarks& remarks);

}  // namespace weir::cli
