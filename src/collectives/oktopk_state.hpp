// oktopk_state.hpp: the state that Ok-Topk keeps between runs, for all schedules.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "base/state.hpp"
#include "collectives/regions.hpp"
#include "kernels/kernels.hpp"

namespace weir {

template <class T>
struct OkTopkState {
  std::int64_t iteration = 0;
  Key<T> global_key = 0;  ///< smallest key that the last cut selected; 0 before the first cut
  Boundaries boundaries;

  OkTopkState(std::int64_t count, int ranks) : boundaries(static_cast<std::size_t>(ranks) + 1) {
    uniform_boundaries(static_cast<std::uint64_t>(count), boundaries);
  }

  void visit(StateVisitor& visitor) {
    visitor.value("iteration", iteration);
    visitor.check(iteration >= 0, "iteration", "at least 0");
    visitor.value("global_key", global_key);
    const std::uint64_t n = boundaries.back();
    visitor.values("boundaries", std::span(boundaries), Share::cuts);
    visitor.check(boundaries.front() == 0 && boundaries.back() == n && std::is_sorted(boundaries.begin(), boundaries.end()),
                  "boundaries", fmt::format("ascending from 0 to {}", n));
  }
};

}  // namespace weir
