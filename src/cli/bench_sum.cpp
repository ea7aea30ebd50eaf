// weir bench sum: measures sparse sums against what a program would do with MPI alone, in the same run: MPI_Allreduce of the dense
// array, MPI_Allgatherv of all entries, and MPI_Reduce of run-length codes. Start it with mpirun.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <weir/sums.hpp>

#include "base/config_check.hpp"
#include "base/splitmix.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/named_options.hpp"
#include "cli/sum_by_mpi.hpp"
#include "communicator/communicator.hpp"
#include "sums/sum_row.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 4194304;
  std::vector<double> densities = {0.01};
  std::vector<std::string> distributions = {"uniform"}, algorithms = {"all"};
  std::string json;
  SumType type = SumType::float64;
  SumOperation operation = SumOperation::sum;
  int iterations = 20, warmup = 3;
};

const std::vector<std::string> known_distributions = {"uniform", "clustered", "powerlaw"};

double uniform(std::uint64_t& state) {
  state = splitmix64(state + 0x9e3779b97f4a7c15ull);
  return static_cast<double>(state >> 11) * 0x1p-53;
}

/// Where entries are.
struct Places {
  std::int64_t count = 0;
  double density = 0;
  std::string distribution;
};

/// Returns this rank's indices in run `t`, ascending, none twice: about density x count.
/// - uniform: anywhere.
/// - clustered: in half of a block of neighbours, one block in each rank's part and one that all ranks share.
/// - powerlaw: the small ones are frequent on all ranks: count u^4.
std::vector<std::int32_t> make_indices(const Places& places, int rank, int ranks, int t) {
  const auto count = static_cast<double>(places.count);
  const auto entries = std::max<std::int64_t>(1, std::llround(places.density * count));
  std::uint64_t state = splitmix64(static_cast<std::uint64_t>(t * ranks + rank) + 1);
  std::vector<std::int32_t> indices;
  for (std::int64_t i = 0; i < entries; ++i) {
    double place = uniform(state);
    if (places.distribution == "powerlaw") place = std::pow(place, 4);
    if (places.distribution == "clustered") {
      const double begin = i % 2 == 0 ? (rank + 0.5) / ranks : 0.3;
      place = std::min(begin + places.density * place, 1 - 1e-9);
    }
    indices.push_back(static_cast<std::int32_t>(std::min(places.count - 1, static_cast<std::int64_t>(place * count))));
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

/// Measures all ways to sum entries at such places. Adds their rows on all ranks.
template <class T>
void measure(const Communicator& comm, const Options& options, const Places& places, Rows& rows, Progress& progress, int done) {
  // Runs take turns with these: a processor learns how two short lists merge when it sees them again.
  std::vector<std::vector<std::int32_t>> indices;
  std::vector<std::vector<T>> values;
  const double lists = std::clamp(500'000 / std::max(1.0, places.density * static_cast<double>(places.count)), 1.0, 64.0);
  for (int t = 0; t < static_cast<int>(lists); ++t) {
    indices.push_back(make_indices(places, comm.rank(), comm.size(), t));
    values.emplace_back(indices.back().size(), T{1});
  }
  std::int64_t most = 0;
  for (const auto& list : indices) most = std::max(most, std::ssize(list));
  const std::int64_t total = over_ranks(most, MPI_SUM);
  most = over_ranks(most, MPI_MAX);
  if (total > SumByMpi<T>::most_entries)
    give_up("all ranks together have {} entries, and MPI's collectives take at most {}: lower --count or --density", total,
            SumByMpi<T>::most_entries);
  std::vector<T> input(static_cast<std::size_t>(places.count)), dense(input.size());
  for (const std::int32_t index : indices[0]) input[static_cast<std::size_t>(index)] = 1;
  SumByMpi<T> by_mpi(comm.size(), places.count);
  const auto each = [&](auto sum) {
    return [&, sum, next = std::size_t{0}](int) mutable {
      next = (next + 1) % indices.size();
      sum(indices[next], values[next]);
    };
  };

  constexpr std::size_t merged = 1, runs = 3;  // among the ways
  std::vector<Way> ways;
  ways.push_back({"mpi_allreduce", [&](int) {
                    MPI_Allreduce(input.data(), dense.data(), static_cast<int>(places.count), mpi_type<T>(), MPI_SUM,
                                  MPI_COMM_WORLD);
                  }});
  ways.push_back({"mpi_allgatherv, merged", each([&](const auto& at, const auto& x) { by_mpi.gather_and_merge(at, x); })});
  ways.push_back({"mpi_allgatherv, dense", each([&](const auto& at, const auto& x) { by_mpi.gather_and_add(at, x, dense); })});
  ways.push_back({"mpi_reduce, runs", each([&](const auto& at, const auto& x) { by_mpi.reduce_runs(at, x); })});
  const std::size_t anchors = ways.size();
  std::vector<std::string> names = options.algorithms;
  if (names == std::vector<std::string>{"all"}) {
    names = {"auto"};
    for (const sums::SumRow* row : sums::sum_registry()) {
      const Topology& topology = comm.state()->topology;
      if (!sums::has_place(*row, topology) || (row->needs == sums::Shown::nodes && topology.node_count() == 1)) continue;
      if (row->keeps_terms || !sums::keeps_terms(options.operation, options.type)) names.emplace_back(row->name);
    }
  }
  std::vector<SparseSum> made;
  made.reserve(names.size());
  for (const std::string& name : names) {
    made.emplace_back(comm, SparseSumConfig{.count = options.count,
                                            .type = options.type,
                                            .operation = options.operation,
                                            .expected_entries = most,
                                            .algorithm = name});
    ways.push_back({name, each([&sum = made.back()](const auto& at, const auto& x) { sum.run(SumInput::entries(at, x)); })});
  }
  repeat_short_ways(ways, 4.0);
  take_turns(ways, options.warmup, options.iterations, progress, done);

  by_mpi.gather_and_merge(indices[0], values[0]);
  const std::int64_t entries_merged = by_mpi.entries();
  by_mpi.reduce_runs(indices[0], values[0]);
  const std::int64_t entries_of_runs = by_mpi.entries();
  double best = median(ways[0].times);
  for (const Way& way : ways) best = std::min(best, median(way.times));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    JsonValue row = row_of("sum", ways[i], ways[0],
                           {{"ranks", comm.size()},
                            {"count", options.count},
                            {"density", places.density},
                            {"percent", 100 * places.density},
                            {"distribution", places.distribution},
                            {"type", name_of(options.type)},
                            {"operation", name_of(options.operation)},
                            {"ratio_allgatherv", median(ways[i].times) / median(ways[merged].times)},
                            {"ratio_best", median(ways[i].times) / best},
                            {"allocations_per_iteration", static_cast<double>(ways[i].allocations) /
                                                              static_cast<double>(options.iterations * ways[i].at_once)}});
    if (i >= anchors) {
      made[i - anchors].run(SumInput::entries(indices[0], values[0]));
      const SparseSumStatistics& did = made[i - anchors].statistics();
      row.set("ran_as", did.algorithm);
      row.set("entries_sum", did.entries_sum);
      row.set("bytes_sent_max", over_ranks(did.payload_bytes_sent + did.control_bytes_sent, MPI_MAX));
    }
    if (i == merged) row.set("entries_sum", entries_merged);
    if (i == runs) row.set("entries_sum", entries_of_runs);
    rows.push_back(row);
  }
}

template <class T>
void measure_all(const Communicator& comm, const Options& options) {
  const int rounds = options.warmup + options.iterations;
  const auto tables = static_cast<int>(options.distributions.size() * options.densities.size());
  Progress progress(comm.rank() == 0, "sums", tables * rounds);
  Rows rows;
  int done = 0;
  for (const std::string& distribution : options.distributions) {
    for (const double density : options.densities) {
      measure<T>(comm, options, {options.count, density, distribution}, rows, progress, done);
      done += rounds;
    }
  }
  if (comm.rank() != 0) return;
  print_table(rows,
              "{algorithm:<14+} {ran_as:<9} {distribution:<12} {percent:>9.3g} {median_ms:>10.3f} {min_ms:>10.3f} {ratio:>16.3f} "
              "{ratio_best:>9.2f} {entries_sum:>10} {bytes_sent_max:>12}",
              {"algorithm", "ran as", "distribution", "density %", "median ms", "min ms", "/ mpi_allreduce", "/ fastest", "entries",
               "bytes sent"});
  fmt::print(
      "\n{} ranks, {} {} elements, operation {}. / mpi_allreduce, / fastest: the median over theirs. entries: those of the sum.\n"
      "bytes sent: in Weir's messages, the most of any rank; what MPI sends is not counted.\n",
      comm.size(), options.count, name_of(options.type), name_of(options.operation));
  write_rows(rows, options.json);
}

void run(const Options& options) {
  for (const std::string& name : options.algorithms) {
    if (name != "all") static_cast<void>(sums::find_sum(name));
  }
  const Communicator comm = start_ranks(options.json);
  switch (options.type) {
    case SumType::float32:
      return measure_all<float>(comm, options);
    case SumType::float64:
      return measure_all<double>(comm, options);
    case SumType::int32:
      return measure_all<std::int32_t>(comm, options);
    case SumType::int64:
      return measure_all<std::int64_t>(comm, options);
  }
}

}  // namespace

void add_bench_sum(Command& bench) {
  auto [command, options] = bench.add("sum",
                                      "Measure exact sparse sums, compared with MPI_Allreduce, MPI_Allgatherv and MPI_Reduce of "
                                      "the same entries; start with mpirun",
                                      run);
  command.option("--count", options.count, "elements of the array").between(1, 2147483647);
  command
      .option("--density", options.densities,
              "shares of the elements for which a rank has entries, before repetitions are left out")
      .between(1e-9, 1.0)
      .delimiter(',');
  command.option("--distribution", options.distributions, "where entries are").one_of(known_distributions).delimiter(',');
  command.option("--algorithm", options.algorithms, "algorithms to measure")
      .one_of(names_in(sums::sum_registry(), {"all", "auto"}))
      .delimiter(',');
  add_named(command, "--type", options.type, "type of the elements");
  add_named(command, "--operation", options.operation, "how entries with the same index are combined; MPI adds them");
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--warmup", options.warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench sum --density 0.0001,0.001,0.01,0.1",
                    "mpirun -n 4 weir bench sum --distribution clustered --type float32 --json rows.json"});
}

}  // namespace weir::cli
