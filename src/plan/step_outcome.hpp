// step_outcome.hpp: the input and the result of a step of a plan.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/allreduce.hpp"

namespace weir::detail {

/// Gradients are of type G.
template <class G>
struct StepInput {
  G* dense = nullptr;              ///< the gradient, to be overwritten with the update; or
  const G* sparse_only = nullptr;  ///< the gradient, which is read
  ErrorReport input_error;         ///< the error in it on this rank, if any
  std::int64_t iteration = 0;      ///< of the density schedule
  bool caller_waits = false;       ///< the gradient stays valid until the run has finished

  [[nodiscard]] const G* gradient() const { return dense != nullptr ? dense : sparse_only; }
};

/// How the messages of a run ended. The same on every rank except `selected_local`.
struct StepOutcome {
  ErrorReport input_error;  ///< the largest error of any rank; if set, nothing is delivered
  bool sparse = false;      ///< true after an exchange of entries
  std::int64_t k = 0;
  std::int64_t selected_local = 0, selected_global = 0;
  bool rethresholded = false;               ///< the local threshold was evaluated again
  std::span<const CounterInfo> counters{};  ///< of the algorithm
  std::uint32_t counted = 0;                ///< bit i: the run counts for counter i
};

/// What a plan does with an outcome.
enum class Verdict {
  delivered,
  skipped,  ///< the update is 0
  refused   ///< the gradient stays as it is, and the run ends with an error
};

}  // namespace weir::detail
