// schedules.hpp: by which schedules the exchanges of oktopk and hi_oktopk run.
#pragma once

#include <string>

#include "collectives/allreduce.hpp"

namespace weir {

/// Whether results could not depend on the schedule: ranks contribute at most k entries, with values as they are, in host memory.
[[nodiscard]] bool any_schedule(const AllreduceConfig& config);

/// The radix of the phases of `exchange`: all of `whole`, or, `sharded`, a shard of it among nodes. The same on every rank.
[[nodiscard]] int choose_radix(const Machine& machine, const AllreduceProblem& whole, bool sharded,
                               const AllreduceProblem& exchange);

/// For people, a line: "schedule: phased with radix 4".
[[nodiscard]] std::string schedule_text(const AllreduceProblem& exchange);

}  // namespace weir
