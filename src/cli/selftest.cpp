// weir selftest: checks every algorithm and every exchange against a slow oracle on the ranks of a job. Start it with mpirun or
// srun.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <weir/embedding.hpp>

#include "base/splitmix.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/selftest_oracle.hpp"
#include "communicator/communicator.hpp"
#include "compress/compressor.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 20011;
  double density = 0.01;
  int steps = 4;
  double seconds = 0;
  std::string json;
};

/// Keeps the first error on any rank.
class Verdict {
 public:
  void that(bool right, const std::string& otherwise) {
    if (!right && wrong_.empty()) wrong_ = otherwise;
  }
  /// Collective. Returns the error of the lowest rank that has one, or "".
  [[nodiscard]] std::string over_all_ranks() const {
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int first = wrong_.empty() ? size : rank;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == size) return "";
    return text_of_rank(fmt::format("rank {}: {}", first, wrong_), first);
  }

 private:
  std::string wrong_;
};

struct Outcome {
  std::string kind, name;    ///< kind: allreduce, embedding
  std::string compressor{};  ///< of packed algorithms
  std::string wrong{};       ///< empty: correct
  int steps = 0;
  double seconds = 0;
};

/// The compressor used for packed algorithms. Like the oracle's, its sums are exact. It is in the catalogue.
constexpr std::string_view exact_compressor = "lossless";
std::string_view compressor_of(const AllreduceRow& row) { return row.packed() ? exact_compressor : ""; }
bool has_exact_compressor() {
  const std::span<const compress::CompressorRow* const> rows = compress::compressor_registry();
  return std::any_of(rows.begin(), rows.end(), [](const auto* row) { return row->name == exact_compressor; });
}

/// Makes whole numbers, few of them large, at places that ranks share in part. Sums over all ranks and steps stay below 2^24, which
/// float32 can hold, and those of a step below 2^21, so that averages times ranks are less than 0.5 away from them.
std::vector<float> make_gradient(const Options& options, std::uint64_t seed, const Communicator& comm, int step) {
  const double largest = std::max(1.0, std::floor(16777216.0 / comm.size() / std::max(options.steps, 8)));
  const auto uniform = [](std::uint64_t x) { return static_cast<double>(splitmix64(x) >> 11) * 0x1p-53; };
  std::vector<float> gradient(static_cast<std::size_t>(options.count));
  const std::uint64_t own =
      splitmix64(seed * 1000003 + static_cast<std::uint64_t>(comm.rank()) * 4099 + static_cast<std::uint64_t>(step) + 1);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double place = uniform(seed + i), noise = uniform(own + i);
    const double size = largest * std::pow(i % 3 == 0 ? noise : place, 12) * (0.5 + noise / 2);
    gradient[i] = static_cast<float>(std::floor(size)) * (noise < 0.5 ? -1.0F : 1.0F);
  }
  return gradient;
}

/// Returns whether all ranks have the same bits.
bool same_on_all_ranks(std::span<const float> values) {
  std::uint64_t hash = values.size();
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = splitmix64(hash ^ bits);
  }
  std::array<std::uint64_t, 2> ends = {hash, ~hash};
  MPI_Allreduce(MPI_IN_PLACE, ends.data(), 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return ends[0] == ~ends[1];
}

/// `tolerance` is relative.
std::string first_difference(std::span<const float> got, std::span<const float> expected, double tolerance = 0) {
  if (got.size() != expected.size()) return fmt::format("{} elements instead of {}", got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(static_cast<double>(got[i]) - expected[i]) <= tolerance * std::abs(expected[i])))
      return fmt::format("element {} is {} instead of {}", i, got[i], expected[i]);
  }
  return "";
}

/// Checks that for every element, gradients so far = delivered so far + residuals, summed over ranks.
class Conservation {
 public:
  explicit Conservation(std::int64_t count) : missing_(static_cast<std::size_t>(count), 0.0) {}
  void gave(std::span<const float> gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) missing_[i] += gradient[i];
  }
  /// Subtracts the delivered update, on rank 0 only. Averages times ranks are whole numbers again.
  void received(std::span<const float> averages, const Communicator& comm) {
    if (comm.rank() != 0) return;
    for (std::size_t i = 0; i < averages.size(); ++i) missing_[i] -= std::round(static_cast<double>(averages[i]) * comm.size());
  }
  /// Collective. Returns an error text if anything was lost.
  [[nodiscard]] std::string lost(std::span<const float> residual, std::int64_t begin) const {
    std::vector<double> left = missing_;
    for (std::size_t i = 0; i < residual.size(); ++i) left[i + static_cast<std::size_t>(begin)] -= residual[i];
    over_ranks(left, MPI_SUM);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] != 0) return fmt::format("of element {}, {} is neither delivered nor kept", i, left[i]);
    }
    return "";
  }

 private:
  std::vector<double> missing_;
};

void check_allreduce(const Communicator& comm, const Options& options, const AllreduceRow& row, std::uint64_t seed,
                     Verdict& verdict) {
  AllreducePlan plan(comm, {.count = options.count,
                            .density = options.density,
                            .algorithm = std::string(row.name),
                            .algorithm_parameters = parameters_if_chosen(row, "boundary_period=3").text(),
                            .compressor = std::string(compressor_of(row))});
  AllreduceOracle oracle(row, comm.state()->topology, options.count);
  Conservation conservation(options.count);
  for (int step = 0; step < options.steps; ++step) {
    const auto here = [&](std::string_view what, std::string_view more = "") {
      return fmt::format("step {}: {}{}", step, what, more);
    };
    const std::vector<float> gradient = make_gradient(options, seed, comm, step);
    std::vector<float> result = gradient;
    if (row.sparse() && step % 2 == 1) {
      plan.run_sparse(std::span<const float>(gradient));
      const SparseView<float> update = plan.sparse_result<float>();
      std::fill(result.begin(), result.end(), 0.0F);
      for (std::size_t i = 0; i < update.indices.size(); ++i) result.at(update.indices[i]) = update.values[i];
    } else {
      plan.run(std::span<float>(result));
    }
    verdict.that(same_on_all_ranks(result), here("ranks hold different results"));
    conservation.gave(gradient);
    conservation.received(result, comm);
    const std::span<const float> residual = row.sparse() ? plan.residual<float>() : std::span<const float>();
    const std::string lost = conservation.lost(residual, row.sparse() ? plan.residual_begin() : 0);
    verdict.that(lost.empty(), here(lost));
    if (row.packed() && !has_exact_compressor()) continue;
    if (!row.threshold.empty()) continue;  // an estimate selects, so the number of entries is not fixed
    oracle.step(gradient, plan.statistics().k);
    std::vector<float> expected = oracle.delivered();
    for (float& value : expected) value /= static_cast<float>(comm.size());
    // Dense algorithms may multiply by the reciprocal, which is also rounded.
    const std::string difference = first_difference(result, expected, row.sparse() ? 0 : 0x1p-23),
                      kept = first_difference(residual, oracle.residual());
    verdict.that(difference.empty(), here("result: ", difference));
    verdict.that(kept.empty(), here("residual: ", kept));
  }
}

void check_embedding(const Communicator& comm, const Options& options, std::string_view exchange, std::uint64_t seed,
                     Verdict& verdict) {
  constexpr std::int64_t rows = 211, width = 5, batch = 40;
  EmbeddingTable table(comm, {.rows = rows,
                              .width = width,
                              .largest_batch = batch,
                              .exchange = std::string(exchange),
                              .learning_rate = 1,
                              .average = false,
                              .initial_range = 0});
  std::vector<float> expected(rows * width, 0.0F);
  std::vector<std::int64_t> ids(batch), next(batch);
  std::vector<float> vectors(batch * width), gradients(batch * width);
  const auto draw = [&](std::vector<std::int64_t>& list, int step) {
    const std::uint64_t own = splitmix64(seed + static_cast<std::uint64_t>(comm.rank()) * 8191 + static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<std::int64_t>(splitmix64(own + i / 2) % rows);
  };
  draw(ids, 0);
  for (int step = 0; step < options.steps; ++step) {
    table.lookup(ids, vectors).wait();
    std::vector<float> right;
    for (const std::int64_t id : ids) right.insert(right.end(), expected.begin() + id * width, expected.begin() + (id + 1) * width);
    const std::string difference = first_difference(vectors, right);
    verdict.that(difference.empty(), fmt::format("step {}: vectors: {}", step, difference));
    draw(next, step + 1);
    table.prefetch(next);
    std::vector<float> sums(rows * width, 0.0F);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = static_cast<float>(splitmix64(seed ^ (i * 31 + static_cast<std::uint64_t>(step))) % 17) - 8;
      sums[static_cast<std::size_t>(ids[i / width]) * width + i % width] += gradients[i];
    }
    table.update(gradients);
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < sums.size(); ++i) expected[i] -= sums[i];
    ids = next;
  }
  std::vector<float> all(expected.size());
  table.export_rows(0, rows, all);
  const std::string difference = first_difference(all, expected);
  verdict.that(difference.empty(), "rows in the end: " + difference);
}

/// Collective. An exception of `body`, on any rank, counts as its error.
Outcome check(Outcome outcome, const std::function<void(Verdict&)>& body) {
  const double begin = MPI_Wtime();
  Verdict verdict;
  try {
    body(verdict);
  } catch (const std::exception& error) {
    verdict.that(false, error.what());
  }
  outcome.wrong = verdict.over_all_ranks();
  outcome.seconds = MPI_Wtime() - begin;
  return outcome;
}

std::vector<Outcome> check_all(const Communicator& comm, const Options& options, std::uint64_t seed) {
  std::vector<Outcome> outcomes;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (row.host_memory)
      outcomes.push_back(check({"allreduce", std::string(row.name), std::string(compressor_of(row)), "", options.steps},
                               [&](Verdict& verdict) { check_allreduce(comm, options, row, seed, verdict); }));
  }
  for (const ExchangeInfo& exchange : exchanges())
    outcomes.push_back(check({"embedding", std::string(exchange.name), "", "", options.steps},
                             [&](Verdict& verdict) { check_embedding(comm, options, exchange.name, seed, verdict); }));
  return outcomes;
}

/// Rank 0 decides for all ranks whether there is time for another round.
bool another_round(double begin, const Options& options) {
  int more = MPI_Wtime() - begin < options.seconds ? 1 : 0;
  MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return more != 0;
}

/// Prints and writes a line for each outcome.
void report(const std::vector<Outcome>& outcomes, const Communicator& comm, const std::string& json) {
  const int nodes = comm.state()->topology.node_count();
  Rows rows;
  std::size_t failed = 0, width = 20;
  const auto name_of = [](const Outcome& o) { return o.name + (o.compressor.empty() ? "" : " of ") + o.compressor; };
  for (const Outcome& o : outcomes) width = std::max(width, name_of(o).size());
  for (const Outcome& o : outcomes) {
    failed += o.wrong.empty() ? 0 : 1;
    fmt::print("{:<10} {:<{}} {:>6} steps {:>8.2f} s  {}\n", o.kind, name_of(o), width, o.steps, o.seconds,
               o.wrong.empty() ? "ok" : "FAILED: " + o.wrong);
    rows.push_back({{"benchmark", "selftest"},
                    {"kind", o.kind},
                    {"algorithm", o.name},
                    {"compressor", o.compressor},
                    {"ranks", comm.size()},
                    {"nodes", nodes},
                    {"steps", o.steps},
                    {"seconds", o.seconds},
                    {"ok", o.wrong.empty()},
                    {"wrong", o.wrong}});
  }
  fmt::print("{}: {} of {}; ranks: {}, nodes: {}\n", failed == 0 ? "passed" : "FAILED", failed == 0 ? outcomes.size() : failed,
             outcomes.size(), comm.size(), nodes);
  std::fflush(stdout);
  write_rows(rows, json);
}

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  const double begin = MPI_Wtime();
  std::vector<Outcome> outcomes = check_all(comm, options, 1);
  for (std::uint64_t seed = 2; another_round(begin, options); ++seed) {
    const std::vector<Outcome> again = check_all(comm, options, seed);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].wrong.empty()) outcomes[i].wrong = again[i].wrong;
      outcomes[i].steps += again[i].steps;
      outcomes[i].seconds += again[i].seconds;
    }
  }
  if (comm.rank() == 0) report(outcomes, comm, options.json);
  MPI_Barrier(MPI_COMM_WORLD);
  end_with(std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.wrong.empty(); }) ? 0 : 1);
}

}  // namespace

void add_selftest(Command& app) {
  auto [command, options] = app.add(
      "selftest", "Check every algorithm and exchange against a slow reference on these ranks; start with mpirun or srun", run);
  command.footer(
      "Every step checks that all ranks hold the same result, that nothing is lost, and that the result and what each rank keeps "
      "equal those of the reference. "
      "Packed algorithms are compared with the reference only if the build has the compressor lossless. "
      "The exit status is 1 if a line says FAILED, and 0 otherwise. "
      "A hang ends after WEIR_TIMEOUT seconds.");
  command.option("--count", options.count, "elements of the gradients").between(1, 100000000);
  command.option("--density", options.density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0);
  command.option("--steps", options.steps, "steps of each algorithm").between(1, 1000);
  command.option("--seconds", options.seconds, "repeat with other inputs for this time, in seconds; 0: check once").non_negative();
  command.option("--json", options.json, "also write the lines to this file, on rank 0");
  command.examples({"mpirun -n 8 weir selftest"});
}

}  // namespace weir::cli
