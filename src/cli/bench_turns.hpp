// bench_turns.hpp: measures several ways to do the same in turns, so that disturbances of the machine affect all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench_ranks.hpp"
#include "cli/report.hpp"

namespace weir::cli {

struct Way {
  std::string name;
  std::function<void(int)> run;  ///< in round t
  std::function<void(int)> prepare = [](int) {};
  std::vector<double> times{};   ///< ms of a run on the slowest rank
  std::int64_t allocations = 0;  ///< maximum over ranks in the measured rounds

  [[nodiscard]] double milliseconds() const { return median(times); }
};

/// Collective. In every round, each of `ways` runs `at_once` times and is measured once. The first `warmup` rounds are not counted.
/// The order rotates, because the first and the last of a round have other neighbours. `progress` was at `done` before.
inline void take_turns(std::vector<Way>& ways, int warmup, int iterations, std::int64_t at_once, Progress& progress, int done = 0) {
  for (int t = 0; t < warmup + iterations; ++t) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[(i + static_cast<std::size_t>(t)) % ways.size()];
      way.prepare(t);
      const std::int64_t before = allocations_so_far();
      const double ms = milliseconds([&] {
        for (std::int64_t repeat = 0; repeat < at_once; ++repeat) way.run(t);
      });
      const std::int64_t made = over_ranks(allocations_so_far() - before, MPI_MAX);
      if (t < warmup) continue;
      way.times.push_back(ms / static_cast<double>(at_once));
      way.allocations += made;
    }
    progress.at(done + t + 1);
  }
}

}  // namespace weir::cli
