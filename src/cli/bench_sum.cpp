// weir bench sum: measures sparse sums against what a program would do with MPI alone, in the same run: MPI_Allreduce of the dense
// array, and MPI_Allgatherv of all entries. Start it with mpirun.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <weir/sums.hpp>

#include "base/config_check.hpp"
#include "base/splitmix.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/named_option.hpp"
#include "sums/sum_row.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 4194304;
  double density = 0.01;
  std::string distribution = "uniform", json;
  std::vector<std::string> algorithms = {"all"};
  SumType type = SumType::float64;
  SumOperation operation = SumOperation::sum;
  int iterations = 20, warmup = 3;
};

const std::vector<std::string> distributions = {"uniform", "clustered", "powerlaw"};

double uniform(std::uint64_t& state) {
  state = splitmix64(state + 0x9e3779b97f4a7c15ull);
  return static_cast<double>(state >> 11) * 0x1p-53;
}

/// Returns this rank's indices, ascending, none twice: about density x count.
/// - uniform: anywhere.
/// - clustered: in half of a block of neighbours, one block in each rank's part and one that all ranks share.
/// - powerlaw: the small ones are frequent on all ranks: count u^4.
std::vector<std::int64_t> make_indices(const Options& options, int rank, int ranks) {
  const auto count = static_cast<double>(options.count);
  const auto entries = std::max<std::int64_t>(1, std::llround(options.density * count));
  std::uint64_t state = splitmix64(static_cast<std::uint64_t>(rank) + 1);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < entries; ++i) {
    double place = uniform(state);
    if (options.distribution == "powerlaw") place = std::pow(place, 4);
    if (options.distribution == "clustered") {
      const double begin = i % 2 == 0 ? (rank + 0.5) / ranks : 0.3;
      place = std::min(begin + options.density * place, 1 - 1e-9);
    }
    indices.push_back(std::min(options.count - 1, static_cast<std::int64_t>(place * count)));
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
  return MPI_INT64_T;
}

/// What a program would write with MPI: gathers the entries of all ranks, and merges them or adds them to a dense array.
template <class T>
class GatheredByMpi {
 public:
  explicit GatheredByMpi(int ranks) : counts_(static_cast<std::size_t>(ranks)), begins_(counts_.size() + 1) {}

  void merge(const std::vector<std::int64_t>& indices, const std::vector<T>& values) {
    gather(indices, values);
    // Neighbours are merged until one list is left.
    std::vector<int> begins = begins_;
    while (begins.size() > 2) {
      std::vector<int> next = {0};
      merged_indices_.clear();
      merged_values_.clear();
      for (std::size_t i = 0; i + 1 < begins.size(); i += 2) {
        const int end = i + 2 < begins.size() ? begins[i + 2] : begins[i + 1];
        merge_two(begins[i], begins[i + 1], end);
        next.push_back(static_cast<int>(merged_indices_.size()));
      }
      all_indices_.swap(merged_indices_);
      all_values_.swap(merged_values_);
      begins = next;
    }
  }

  void add(const std::vector<std::int64_t>& indices, const std::vector<T>& values, std::vector<T>& dense) {
    gather(indices, values);
    std::fill(dense.begin(), dense.end(), T{0});
    for (std::size_t i = 0; i < all_indices_.size(); ++i) dense[static_cast<std::size_t>(all_indices_[i])] += all_values_[i];
  }

 private:
  void gather(const std::vector<std::int64_t>& indices, const std::vector<T>& values) {
    const auto mine = static_cast<int>(indices.size());
    MPI_Allgather(&mine, 1, MPI_INT, counts_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::partial_sum(counts_.begin(), counts_.end(), begins_.begin() + 1);
    all_indices_.resize(static_cast<std::size_t>(begins_.back()));
    all_values_.resize(all_indices_.size());
    MPI_Allgatherv(indices.data(), mine, MPI_INT64_T, all_indices_.data(), counts_.data(), begins_.data(), MPI_INT64_T,
                   MPI_COMM_WORLD);
    MPI_Allgatherv(values.data(), mine, mpi_type<T>(), all_values_.data(), counts_.data(), begins_.data(), mpi_type<T>(),
                   MPI_COMM_WORLD);
  }

  void merge_two(int begin, int middle, int end) {
    auto a = static_cast<std::size_t>(begin), b = static_cast<std::size_t>(middle);
    const std::size_t a_end = b, b_end = static_cast<std::size_t>(end);
    while (a < a_end || b < b_end) {
      const bool takes_a = b == b_end || (a < a_end && all_indices_[a] <= all_indices_[b]);
      const bool takes_b = a == a_end || (b < b_end && all_indices_[b] <= all_indices_[a]);
      merged_indices_.push_back(takes_a ? all_indices_[a] : all_indices_[b]);
      merged_values_.push_back(takes_a && takes_b ? all_values_[a] + all_values_[b] : takes_a ? all_values_[a] : all_values_[b]);
      a += takes_a;
      b += takes_b;
    }
  }

  std::vector<int> counts_, begins_;
  std::vector<std::int64_t> all_indices_, merged_indices_;
  std::vector<T> all_values_, merged_values_;
};

template <class T>
void measure(const Communicator& comm, const Options& options) {
  const std::vector<std::int64_t> indices = make_indices(options, comm.rank(), comm.size());
  const std::vector<T> values(indices.size(), T{1});
  std::vector<T> input(static_cast<std::size_t>(options.count)), dense(input.size());
  for (std::size_t i = 0; i < indices.size(); ++i) input[static_cast<std::size_t>(indices[i])] = values[i];
  GatheredByMpi<T> gathered(comm.size());

  std::vector<Way> ways;
  ways.push_back({"mpi_allreduce", [&](int) {
                    MPI_Allreduce(input.data(), dense.data(), static_cast<int>(options.count), mpi_type<T>(), MPI_SUM,
                                  MPI_COMM_WORLD);
                  }});
  ways.push_back({"mpi_allgatherv, merged", [&](int) { gathered.merge(indices, values); }});
  ways.push_back({"mpi_allgatherv, dense", [&](int) { gathered.add(indices, values, dense); }});
  constexpr std::size_t anchors = 3;
  std::vector<std::string> names = options.algorithms;
  if (names == std::vector<std::string>{"all"}) {
    names = {"auto"};
    for (const sums::SumRow* row : sums::sum_registry()) {
      if (row->keeps_terms || !sums::keeps_terms(options.operation, options.type)) names.emplace_back(row->name);
    }
  }
  std::vector<SparseSum> made;
  made.reserve(names.size());
  for (const std::string& name : names) {
    made.emplace_back(comm, SparseSumConfig{.count = options.count,
                                            .type = options.type,
                                            .operation = options.operation,
                                            .expected_entries = over_ranks(static_cast<std::int64_t>(indices.size()), MPI_MAX),
                                            .algorithm = name});
    ways.push_back({name, [&sum = made.back(), &indices, &values](int) { sum.run(SumInput::entries(indices, values)); }});
  }
  Progress progress(comm.rank() == 0, "sums", options.iterations + options.warmup);
  take_turns(ways, options.warmup, options.iterations, 1, progress);

  Rows rows;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    JsonValue row = row_of("sum", ways[i], ways[0],
                           {{"ranks", comm.size()},
                            {"count", options.count},
                            {"density", options.density},
                            {"distribution", options.distribution},
                            {"type", name_of(options.type)},
                            {"operation", name_of(options.operation)},
                            {"ratio_allgatherv", median(ways[i].times) / median(ways[1].times)},
                            {"allocations_per_iteration", static_cast<double>(ways[i].allocations) / options.iterations}});
    if (i >= anchors) {
      const SparseSumStatistics& did = made[i - anchors].statistics();
      row.set("ran_as", did.algorithm);
      row.set("entries_sum", did.entries_sum);
      row.set("bytes_sent_max", over_ranks(did.payload_bytes_sent + did.control_bytes_sent, MPI_MAX));
    }
    rows.push_back(row);
  }
  if (comm.rank() != 0) return;
  print_table(rows,
              "{algorithm:<14+} {ran_as:<9} {median_ms:>10.3f} {min_ms:>10.3f} {ratio:>16.3f} {ratio_allgatherv:>16.3f} "
              "{entries_sum:>10} {bytes_sent_max:>12}",
              {"algorithm", "ran as", "median ms", "min ms", "/ mpi_allreduce", "/ mpi_allgatherv", "entries", "bytes sent"});
  write_rows(rows, options.json);
}

void run(const Options& options) {
  for (const std::string& name : options.algorithms) {
    if (name != "all") static_cast<void>(sums::find_sum(name));
  }
  const Communicator comm = start_ranks(options.json);
  switch (options.type) {
    case SumType::float32:
      return measure<float>(comm, options);
    case SumType::float64:
      return measure<double>(comm, options);
    case SumType::int32:
      return measure<std::int32_t>(comm, options);
    case SumType::int64:
      return measure<std::int64_t>(comm, options);
  }
}

}  // namespace

void add_bench_sum(Command& bench) {
  auto [command, options] = bench.add(
      "sum", "Measure exact sparse sums, compared with MPI_Allreduce and MPI_Allgatherv of the same entries; start with mpirun",
      run);
  std::vector<std::string> names = {"all", "auto"};
  for (const sums::SumRow* row : sums::sum_registry()) names.emplace_back(row->name);
  command.option("--count", options.count, "elements of the array").between(1, 2147483647);
  command.option("--density", options.density, "share of the elements for which a rank has entries").between(1e-9, 1.0);
  command.option("--distribution", options.distribution, "where entries are").one_of(distributions);
  command.option("--algorithm", options.algorithms, "algorithms to measure").one_of(names).delimiter(',');
  add_named(command, "--type", options.type, "type of the elements");
  add_named(command, "--operation", options.operation, "how entries with the same index are combined; MPI adds them");
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--warmup", options.warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench sum --density 0.001",
                    "mpirun -n 4 weir bench sum --distribution clustered --type float32 --json rows.json"});
}

}  // namespace weir::cli
