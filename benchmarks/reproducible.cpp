// weir-benchmarks reproducible: measures sums that have the same bits on any number of ranks, against MPI_Allreduce. Start it with
// mpirun.
#include <fmt/core.h>

#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 4194304;
  int iterations = 20, warmup = 3;
  std::string json;
};

/// A reproducible sum, and what a program does without Weir.
struct Pair {
  std::string what;
  double bound;  ///< of the ratio, on 4 ranks of a node
  Way reference, sum;
};

/// Returns `calls` times the `fields` sums of the values of all ranks, of which a rank has as many for each.
Pair totals(const Communicator& comm, std::span<const double> values, std::size_t fields, int calls, const std::string& what,
            double bound) {
  std::vector<double> sums(fields);
  return {what, bound,
          Way{"MPI_Allreduce",
              [=](int) mutable {
                for (int call = 0; call < calls; ++call) {
                  const auto each = static_cast<std::ptrdiff_t>(values.size() / fields);
                  for (std::size_t i = 0; i < fields; ++i) {
                    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * each;
                    sums[i] = std::accumulate(begin, begin + each, 0.0);
                  }
                  MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(fields), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                }
              }},
          Way{"Communicator::sum", [=, &comm](int) mutable {
                for (int call = 0; call < calls; ++call) comm.sum(values, sums);
              }}};
}

template <class T>
struct Arrays {
  Arrays(const Communicator& comm, std::span<const float> values)
      : given(values.begin(), values.end()),
        array(given),
        plan(comm, {.count = std::ssize(given), .type = data_type_of<T>, .algorithm = "dense_reproducible", .average = false}) {}

  Pair pair(const std::string& what, double bound) {
    const MPI_Datatype type = sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE;
    return {what, bound,
            Way{"MPI_Allreduce",
                [this, type](int) {
                  MPI_Allreduce(MPI_IN_PLACE, array.data(), static_cast<int>(array.size()), type, MPI_SUM, MPI_COMM_WORLD);
                },
                [this](int) { array = given; }},
            Way{"dense_reproducible", [this](int) { plan.run(std::span<T>(array)); }, [this](int) { array = given; }}};
  }

  std::vector<T> given, array;
  AllreducePlan plan;
};

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  const std::vector<float> values = std::move(make_gradients(options.count, comm.rank(), 1)[0]);
  const std::vector<double> wide(values.begin(), values.end());
  Arrays<float> narrow_arrays(comm, values);
  Arrays<double> wide_arrays(comm, values);
  std::vector<Pair> pairs;
  pairs.push_back(totals(comm, std::span(wide).first(1), 1, 100, "100 times, 1 value of a rank", 2));
  pairs.push_back(totals(comm, std::span(wide).first(8), 8, 100, "100 times, 8 sums of 1 value", 2));
  pairs.push_back(totals(comm, wide, 1, 1, "all values of a rank", 2));
  pairs.push_back(narrow_arrays.pair("arrays, float32", 1.3));
  pairs.push_back(wide_arrays.pair("arrays, float64", 2.2));

  Rows rows;
  Progress progress(comm.rank() == 0, "sums", static_cast<int>(pairs.size()) * (options.iterations + options.warmup));
  for (Pair& pair : pairs) {
    std::array ways = {pair.reference, pair.sum};
    take_turns(ways, options.warmup, options.iterations, progress);
    rows.push_back(row_of("reproducible", ways[1], ways[0],
                          {{"what", pair.what}, {"ranks", comm.size()}, {"count", options.count}, {"bound", pair.bound}}));
  }
  if (comm.rank() != 0) return;
  print_table(rows,
              "{what:<30} {algorithm:<19} {median_ms:>10.4f} {min_ms:>10.4f} {baseline_ms:>17.4f} {ratio:>8.2f} {bound:>8.1f}",
              {"sums of", "by", "median ms", "min ms", "MPI_Allreduce ms", "ratio", "at most"});
  fmt::print("MPI_Allreduce: with the sum of this rank's own values before it. At most: on 4 ranks of a node.\n");
  write_rows(rows, options.json);
}

}  // namespace

void add_reproducible(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "reproducible", "Measure sums that have the same bits on any number of ranks, compared with MPI_Allreduce; start with mpirun",
      run);
  command.option("--count", options.count, "values of a rank, and elements of an array").between(8, 2147483647);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--warmup", options.warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
