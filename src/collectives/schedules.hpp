// schedules.hpp: by which schedules the exchanges of oktopk and hi_oktopk run.
#pragma once

#include <string>

#include "collectives/allreduce.hpp"

namespace weir {

/// Whether results could not depend on the schedule: ranks contribute at most k entries, with values as they are, in host memory.
[[nodiscard]] bool any_schedule(const AllreduceConfig& config);

/// Whether plans of this configuration, of an algorithm with schedules, ask the cost functions.
[[nodiscard]] bool chooses_schedule(const AllreduceConfig& config);

/// What plans of this configuration ask the cost functions, for one k. The same on every rank.
[[nodiscard]] Problem cost_problem(const Topology& topology, const AllreduceConfig& config, std::int64_t k);

/// Sets the schedules of `exchange`: all of `whole`, or, `sharded`, a shard of it among nodes. Its k is `final_k` in the end, and
/// larger before. The same on every rank.
void choose_schedules(const Machine& machine, const AllreduceProblem& whole, std::int64_t final_k, bool sharded,
                      AllreduceProblem& exchange);

/// For people, a line: "schedule: one_round up to k 1000, phased with radix 4 above".
[[nodiscard]] std::string schedule_text(const AllreduceProblem& exchange);

/// For people, a line below that one: why. The predictions are of the schedules that were considered, at `final_k`; phases and one
/// round are considered within their limits (docs/which-algorithm.md). `machine` is read where plans of this configuration ask the
/// cost functions.
[[nodiscard]] std::string schedule_reason(const Machine* machine, const AllreduceProblem& whole, std::int64_t final_k, bool sharded,
                                          const AllreduceProblem& exchange);

}  // namespace weir
