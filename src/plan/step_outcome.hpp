// step_outcome.hpp: what a step of a plan is given, and what it returns.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/allreduce.hpp"

namespace weir::detail {

/// Gradients are of G.
template <class G>
struct StepInput {
  G* dense = nullptr;              ///< the gradient, to be overwritten with the update; or
  const G* sparse_only = nullptr;  ///< the gradient, which is read
  ErrorReport input_error;         ///< what is wrong with it on this rank
  std::int64_t iteration = 0;      ///< of the schedule
  bool caller_waits = false;       ///< the gradient is there until the run has finished

  [[nodiscard]] const G* gradient() const { return dense != nullptr ? dense : sparse_only; }
};

/// How the messages of a run ended: the same on every rank except `selected_local`.
struct StepOutcome {
  ErrorReport input_error;  ///< the largest of any rank: nothing is delivered
  bool sparse = false;      ///< an exchange of entries
  std::int64_t k = 0;
  std::int64_t selected_local = 0, selected_global = 0;
  bool rethresholded = false;               ///< the local threshold was evaluated anew
  std::span<const CounterInfo> counters{};  ///< of the algorithm
  std::uint32_t counted = 0;                ///< bit i: the run counts for counter i
};

/// What a plan makes of an outcome.
enum class Verdict {
  delivered,
  skipped,  ///< the update is 0
  refused   ///< the gradient stays as it is, and the run ends with an error
};

}  // namespace weir::detail
