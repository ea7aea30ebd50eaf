// weir-benchmarks overlap: measures how soon a small urgent allreduce finishes that starts after a large one. Start it with mpirun.
#include <fmt/core.h>

#include <array>
#include <memory>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"

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
        plan_(comm, {.count = count, .density = density, .algorithm = algorithm, .priority = priority, .name = algorithm}) {
    for (const AlgorithmInfo& info : algorithms()) sparse_ = sparse_ || (info.sparse && info.name == algorithm);
  }
  Operation start() { return sparse_ ? plan_.start_sparse(gradient_) : plan_.start(gradient_); }

 private:
  std::vector<float> gradient_;
  AllreducePlan plan_;
  bool sparse_ = false;
};

/// Milliseconds from the common start until each has finished on the slowest rank.
struct Finish {
  double urgent = 0, large = 0;
};

/// Starts all ranks together. `body` gets a function that returns the milliseconds since then, and returns a Finish.
template <class Body>
Finish measure(Body body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  Finish finish = body([begin] { return (MPI_Wtime() - begin) * 1e3; });
  return {over_ranks(finish.urgent, MPI_MAX), over_ranks(finish.large, MPI_MAX)};
}

Finish alone(Tensor& urgent) {
  return measure([&](auto now) {
    urgent.start().wait();
    return Finish{now(), 0};
  });
}

Finish in_order(Tensor& large, Tensor& urgent) {
  return measure([&](auto now) {
    Finish finish;
    large.start().wait();
    finish.large = now();
    urgent.start().wait();
    finish.urgent = now();
    return finish;
  });
}

Finish both_in_flight(Tensor& large, Tensor& urgent) {
  return measure([&](auto now) {
    Finish finish;
    Operation large_run = large.start();
    urgent.start().wait();
    finish.urgent = now();
    large_run.wait();
    finish.large = now();
    return finish;
  });
}

struct Mode {
  std::string name;
  std::vector<double> urgent, large;
  void add(Finish finish) {
    urgent.push_back(finish.urgent);
    large.push_back(finish.large);
  }
};

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

void print(const std::vector<Mode>& modes, const Mode& baseline) {
  fmt::print("{:<12} {:>18} {:>18} {:>16}\n", "mode", "urgent finishes ms", "large finishes ms", "urgent / in order");
  for (const Mode& mode : modes) {
    fmt::print("{:<12} {:>18.3f} {:>18.3f} {:>17.3f}\n", mode.name, median(mode.urgent), median(mode.large),
               median(mode.urgent) / median(baseline.urgent));
  }
  fmt::print("bound at 1 Gbit/s behind 25000000 floats: with priority, urgent finishes in at most {} of its time in_order\n",
             bound);
}

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  Tensor large(comm, options.count, options.algorithm, options.density, 0);
  Tensor equal(comm, options.urgent_count, options.urgent_algorithm, options.density, 0);
  Tensor urgent(comm, options.urgent_count, options.urgent_algorithm, options.density, 1);
  std::vector<Mode> modes = {{"alone", {}, {}}, {"in_order", {}, {}}, {"equal", {}, {}}, {"priority", {}, {}}};
  for (int t = -1; t < options.iterations; ++t) {
    const std::array<Finish, 4> finished = {alone(equal), in_order(large, equal), both_in_flight(large, equal),
                                            both_in_flight(large, urgent)};
    if (t < 0) continue;  // the first round opens connections and touches memory
    for (std::size_t i = 0; i < modes.size(); ++i) modes[i].add(finished[i]);
  }
  if (comm.rank() != 0) return;
  print(modes, modes[1]);
  Rows rows;
  for (const Mode& mode : modes) {
    rows.push_back(row_of(mode.name + "_urgent", options.urgent_algorithm, options.urgent_count, mode.urgent, modes[1].urgent,
                          options, comm.size()));
    if (mode.name != "alone")
      rows.push_back(
          row_of(mode.name + "_large", options.algorithm, options.count, mode.large, modes[1].large, options, comm.size()));
  }
  write_rows(rows, options.json);
}

}  // namespace

void add_overlap(Command& benchmarks) {
  auto options = std::make_shared<Options>();
  Command command = benchmarks.add(
      "overlap", "Measure when a small urgent allreduce behind a large one finishes, compared with first come, first served");
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.host_memory) names.emplace_back(algorithm.name);
  }
  const auto add_count = [&](const char* name, std::int64_t& count, const char* text) {
    command.option(name, count, text).between(1, 2147483647);
  };
  add_count("--count", options->count, "elements of the large gradient");
  add_count("--urgent-count", options->urgent_count, "elements of the urgent gradient");
  command.option("--algorithm", options->algorithm, "algorithm of the large plan").one_of(names);
  command.option("--urgent-algorithm", options->urgent_algorithm, "algorithm of the urgent plan").one_of(names);
  command.option("--density", options->density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0);
  command.option("--iterations", options->iterations, "measured iterations").positive();
  command.option("--json", options->json, "also write the rows to this file, on rank 0");
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
