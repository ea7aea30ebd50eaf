// weir-benchmarks overlap: measures how soon a small urgent allreduce finishes that starts after a large one. Start it with mpirun.
#include <fmt/core.h>

#include <array>
#include <functional>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "collectives/allreduce.hpp"

namespace weir::cli {
namespace {

// Upper bound of the urgent plan's finish time with priority, relative to that in order, at 1 Gbit/s after 25 M floats.
constexpr double bound = 0.35;

struct Options {
  std::int64_t count = 25000000, urgent_count = 1000000;
  double density = 0.01;
  int iterations = 5;
  std::string algorithm = "dense_ring", urgent_algorithm = "dense_ring", json;
};

/// A plan and its gradient. Dense algorithms reduce it in place; sparse ones only read it.
class Tensor {
 public:
  Tensor(const Communicator& comm, std::int64_t count, const std::string& algorithm, double density, int priority)
      : gradient_(std::move(make_gradients(count, comm.rank(), 1)[0])),
        plan_(comm, {.count = count, .density = density, .algorithm = algorithm, .priority = priority, .name = algorithm}),
        sparse_(find_allreduce(algorithm).sparse()) {}
  Operation start() { return sparse_ ? plan_.start_sparse(gradient_) : plan_.start(gradient_); }

 private:
  std::vector<float> gradient_;
  AllreducePlan plan_;
  bool sparse_;
};

/// Milliseconds from the common start until each plan has finished on the slowest rank.
struct Finish {
  double urgent = 0, large = 0;
};

/// A way to run both plans. `run` gets a function that returns the milliseconds since the common start.
struct Mode {
  std::string name;
  std::function<Finish(const std::function<double()>&)> run;
  std::vector<double> urgent{}, large{};

  /// Collective.
  void measure(bool counts) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const Finish mine = run([begin] { return (MPI_Wtime() - begin) * 1e3; });
    const Finish slowest{over_ranks(mine.urgent, MPI_MAX), over_ranks(mine.large, MPI_MAX)};
    if (!counts) return;
    urgent.push_back(slowest.urgent);
    large.push_back(slowest.large);
  }
};

Finish both_in_flight(Tensor& large, Tensor& urgent, const std::function<double()>& now) {
  Operation large_run = large.start();
  urgent.start().wait();
  const double urgent_ms = now();
  large_run.wait();
  return {urgent_ms, now()};
}

/// Returns the row of one plan of a mode, relative to its time in order.
JsonValue row_of(const std::string& what, const std::string& algorithm, std::int64_t count, const std::vector<double>& times,
                 const std::vector<double>& in_order, const Options& options, int ranks) {
  return result_row({{"benchmark", "overlap_" + what},
                     {"algorithm", algorithm},
                     {"count", count},
                     {"density", options.density},
                     {"ranks", ranks},
                     {"median_ms", median(times)},
                     {"min_ms", minimum(times)},
                     {"baseline", "in_order"},
                     {"baseline_ms", median(in_order)},
                     {"ratio", median(times) / median(in_order)}});
}

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  Tensor large(comm, options.count, options.algorithm, options.density, 0);
  Tensor equal(comm, options.urgent_count, options.urgent_algorithm, options.density, 0);
  Tensor urgent(comm, options.urgent_count, options.urgent_algorithm, options.density, 1);
  std::array modes = {Mode{"alone",
                           [&](const auto& now) {
                             equal.start().wait();
                             return Finish{now(), 0};
                           }},
                      Mode{"in_order",
                           [&](const auto& now) {
                             large.start().wait();
                             const double large_ms = now();
                             equal.start().wait();
                             return Finish{now(), large_ms};
                           }},
                      Mode{"equal", [&](const auto& now) { return both_in_flight(large, equal, now); }},
                      Mode{"priority", [&](const auto& now) { return both_in_flight(large, urgent, now); }}};
  for (int t = -1; t < options.iterations; ++t) {
    for (Mode& mode : modes) mode.measure(t >= 0);  // the first round opens connections and touches memory
  }
  if (comm.rank() != 0) return;
  Rows rows, shown;
  for (const Mode& mode : modes) {
    rows.push_back(row_of(mode.name + "_urgent", options.urgent_algorithm, options.urgent_count, mode.urgent, modes[1].urgent,
                          options, comm.size()));
    if (mode.name != "alone")
      rows.push_back(
          row_of(mode.name + "_large", options.algorithm, options.count, mode.large, modes[1].large, options, comm.size()));
    shown.push_back({{"mode", mode.name},
                     {"urgent", median(mode.urgent)},
                     {"large", median(mode.large)},
                     {"ratio", median(mode.urgent) / median(modes[1].urgent)}});
  }
  print_table(shown, "{mode:<12} {urgent:>18.3f} {large:>18.3f} {ratio:>17.3f}",
              {"mode", "urgent finishes ms", "large finishes ms", "urgent / in order"});
  fmt::print("bound at 1 Gbit/s behind 25000000 floats: with priority, urgent finishes in at most {} of its time in_order\n",
             bound);
  write_rows(rows, options.json);
}

}  // namespace

void add_overlap(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "overlap", "Measure when a small urgent allreduce behind a large one finishes, compared with first come, first served", run);
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.host_memory) names.emplace_back(algorithm.name);
  }
  const auto add_count = [&](const char* name, std::int64_t& count, const char* text) {
    command.option(name, count, text).between(1, 2147483647);
  };
  add_count("--count", options.count, "elements of the large gradient");
  add_count("--urgent-count", options.urgent_count, "elements of the urgent gradient");
  command.option("--algorithm", options.algorithm, "algorithm of the large plan").one_of(names);
  command.option("--urgent-algorithm", options.urgent_algorithm, "algorithm of the urgent plan").one_of(names);
  command.option("--density", options.density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
