// schedules.hpp: by which schedules the exchanges of oktopk and hi_oktopk run.
#pragma once

#include <string>

#include "collectives/allreduce.hpp"

namespace weir {

/// Whether results could not depend on the schedule: ranks contribute at most k entries, with values as they are, in host memory.
[[nodiscard]] bool any_schedule(const AllreduceConfig& config);

/// Whether plans of this configuration, of an algorithm with schedules, ask the cost functions.
[[nodiscard]] bool chooses_schedule(const AllreduceConfig& config);

/// Sets the schedule of `exchange`: all of `whole`, or, `sharded`, a shard of it among nodes. The same on every rank.
void choose_schedule(const Machine& machine, const AllreduceProblem& whole, bool sharded, AllreduceProblem& exchange);

/// For people, a line: "schedule: phased with radix 4".
[[nodiscard]] std::string schedule_text(const AllreduceProblem& exchange);

}  // namespace weir
