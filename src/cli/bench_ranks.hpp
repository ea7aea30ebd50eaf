// bench_ranks.hpp: shared by benchmarks that run under mpirun.
#pragma once

#include <unistd.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/splitmix.hpp"
#include "base/standard_error.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"

namespace weir::cli {

/// Starts MPI and returns the communicator of all ranks. Throws on rank 0 if the file `json` cannot be written.
[[nodiscard]] inline Communicator start_ranks(const std::string& json) {
  start_mpi();
  Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0) require_writable(json);
  return comm;
}

/// Returns the slowest rank's time of `body`, on every rank.
template <class Body>
double milliseconds(Body body, MPI_Comm ranks = MPI_COMM_WORLD) {
  MPI_Barrier(ranks);
  const double begin = MPI_Wtime();
  body();
  double mine = (MPI_Wtime() - begin) * 1e3, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, ranks);
  return slowest;
}

[[nodiscard]] inline std::int64_t over_ranks(std::int64_t value, MPI_Op op, MPI_Comm ranks = MPI_COMM_WORLD) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, op, ranks);
  return value;
}
[[nodiscard]] inline double over_ranks(double value, MPI_Op op, MPI_Comm ranks = MPI_COMM_WORLD) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, ranks);
  return value;
}

/// Reduces each of `values` over ranks, in place.
inline void over_ranks(std::span<double> values, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, op, MPI_COMM_WORLD);
}
/// Reduces each sample over ranks, in place.
inline void over_ranks(Samples& samples, MPI_Op op) {
  for (auto& [figure, values] : samples) over_ranks(std::span(values), op);
}

/// Collective. Returns the text of `rank`.
[[nodiscard]] inline std::string text_of_rank(std::string text, int rank) {
  auto length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, rank, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, rank, MPI_COMM_WORLD);
  return text;
}

/// Progress shown by rank 0: a line that is rewritten on a terminal, otherwise (mpirun pipes stderr) a line every few seconds.
class Progress {
 public:
  Progress(bool speaks, std::string what, int total)
      : speaks_(speaks), terminal_(isatty(STDERR_FILENO) != 0), what_(std::move(what)), total_(total) {}
  ~Progress() {
    if (speaks_ && terminal_) print_error("\r{:60}\r", "");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(int done) {
    if (!speaks_) return;
    if (terminal_) print_error("\r{}: {}/{} ", what_, done, total_);
    const double now = MPI_Wtime();
    if (terminal_ || now - last_ < 5) return;
    last_ = now;
    print_error("{}: {}/{}\n", what_, done, total_);
  }

 private:
  bool speaks_, terminal_;
  std::string what_;
  int total_;
  double last_ = MPI_Wtime();
};

/// One of several ways to do the same.
struct Way {
  std::string name;
  std::function<void(int)> run;  ///< in round t
  std::function<void(int)> prepare = [](int) {};
  std::int64_t at_once = 1;      ///< runs that are measured together
  std::vector<double> times{};   ///< ms of a run on the slowest rank
  std::int64_t allocations = 0;  ///< maximum over ranks in the measured rounds
};

/// Returns the row of a way, with `more` figures. Its time is compared with that of `baseline`.
[[nodiscard]] inline JsonValue row_of(const std::string& benchmark, const Way& way, const Way& baseline,
                                      std::initializer_list<JsonValue::Member> more) {
  JsonValue row = result_row({{"benchmark", benchmark},
                              {"algorithm", way.name},
                              {"median_ms", median(way.times)},
                              {"min_ms", minimum(way.times)},
                              {"baseline", baseline.name},
                              {"baseline_ms", median(baseline.times)},
                              {"ratio", median(way.times) / median(baseline.times)}});
  for (const JsonValue::Member& figure : more) row.set(figure.name, figure.value);
  return row;
}

/// Calls body(item, t) for all of `items` in each round t, each time in another order, the same on all ranks: what an item leaves
/// in the caches, and how far apart its ranks end, would always affect the same next one. `progress` was at `done` before.
template <class Items, class Body>
void in_turns(Items& items, int rounds, Progress& progress, Body body, int done = 0) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int t = 0; t < rounds; ++t) {
    for (std::size_t left = order.size(); left > 1; --left)
      std::swap(order[left - 1], order[splitmix64(static_cast<std::uint64_t>(t) * order.size() + left) % left]);
    for (const std::size_t i : order) body(items[i], t);
    progress.at(done + t + 1);
  }
}

/// Collective. Lets ways that take less than `least_ms` run several times at once: first alone after other ways have used the
/// caches, they would be measured for what the others do.
inline void repeat_short_ways(std::span<Way> ways, double least_ms) {
  for (Way& way : ways) {
    const auto once = [&] { way.run(0); };
    way.prepare(0);
    once();
    const double ms = over_ranks(std::min(milliseconds(once), milliseconds(once)), MPI_MAX);
    way.at_once = static_cast<std::int64_t>(std::clamp(std::ceil(least_ms / std::max(ms, 1e-6)), 1.0, 1000.0));
  }
}

/// Collective. Measures ways in turns, so that disturbances of the machine affect all of them. In every round, each of `ways` runs
/// `at_once` times and is measured once. The first `warmup` rounds are not counted. `progress` was at `done` before.
inline void take_turns(std::span<Way> ways, int warmup, int iterations, Progress& progress, int done = 0) {
  const auto measure = [&](Way& way, int t) {
    way.prepare(t);
    const std::int64_t before = allocations_so_far();
    const double ms = milliseconds([&] {
      for (std::int64_t repeat = 0; repeat < way.at_once; ++repeat) way.run(t);
    });
    const std::int64_t made = over_ranks(allocations_so_far() - before, MPI_MAX);
    if (t < warmup) return;
    way.times.push_back(ms / static_cast<double>(way.at_once));
    way.allocations += made;
  };
  in_turns(ways, warmup + iterations, progress, measure, done);
}

}  // namespace weir::cli
