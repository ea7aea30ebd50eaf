// weir_simulate: runs allreduce algorithms of the registry on made-up gradients, or sparse sums, on a simulated machine. Start it
// with smpirun; see README.md. All times are simulated.
#include <fmt/format.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <smpi/smpi.h>
#include <weir/mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <weir/sums.hpp>

#include "base/splitmix.hpp"
#include "calibrate_simulated.hpp"
#include "gradients.hpp"
#include "report.hpp"
#include "sums/sum_row.hpp"

namespace weir::simulation {
namespace {

struct Options {
  std::int64_t count = 1000000;
  double density = 0.01, spread = 0.25;
  int iterations = 3, warmup = 2;
  std::vector<std::string> algorithms, sums;
  std::string json, machine_file;
};

const std::set<std::string, std::less<>> schedules = {"direct", "phased", "one_round"};
const std::set<std::string, std::less<>> radixes = {"2", "4", "8", "16", "32", "64"};

/// Parses "name", "name+threshold", "name:schedule" or "name:phased/radix" into `config`. Returns false if a part is unknown.
bool parse_algorithm(const std::string& wanted, AllreduceConfig& config) {
  config.algorithm = wanted.substr(0, wanted.find_first_of("+:"));
  const bool known = std::ranges::any_of(algorithms(), [&](const AlgorithmInfo& info) { return info.name == config.algorithm; });
  if (!known) return false;
  if (config.algorithm == wanted) return true;
  std::string rest = wanted.substr(config.algorithm.size() + 1);
  if (wanted[config.algorithm.size()] == '+') {
    config.threshold = rest;
    return true;  // the plan's constructor refuses unknown names
  }
  const std::size_t slash = rest.find('/');
  if (slash != std::string::npos && !radixes.contains(rest.substr(slash + 1))) return false;
  config.algorithm_parameters = "schedule=" + rest.substr(0, slash);
  if (slash != std::string::npos) config.algorithm_parameters += ",radix=" + rest.substr(slash + 1);
  return schedules.contains(rest.substr(0, slash));
}

AllreduceConfig config_of(const Options& options, const std::string& wanted) {
  AllreduceConfig config{.count = options.count, .density = options.density};
  parse_algorithm(wanted, config);
  return config;
}

/// The factor of the first gradient, which stands for those of 16 iterations, so that the residual is as large as in the middle of
/// a training. With an empty residual, the second iteration's sums are sqrt 2 times the first's, and every threshold needs a second
/// pass.
constexpr float head_start = 4;

/// Starts all ranks at the same simulated moment, the next multiple of a time that is longer than any run. Sends no messages,
/// because remains of SMPI's collectives slow down SimGrid 3.32.
double start_together() {
  constexpr double period = 100;
  sg_actor_sleep_for((std::floor(simgrid_get_clock() / period) + 1) * period - simgrid_get_clock());
  return simgrid_get_clock();
}

/// The number of figures of an iteration on this rank. `Row` has the medians of their maxima over ranks, in this order.
constexpr std::size_t figures = 8 + 3 * level_count;

/// `selected`: on this rank, and on all.
template <class AnyStatistics>
void append(std::vector<double>& samples, const AnyStatistics& s, std::array<double, 4> seconds,
            std::array<std::int64_t, 2> selected) {
  const auto add = [&](auto value) { samples.push_back(static_cast<double>(value)); };
  for (const double time : seconds) add(time);
  for (const std::int64_t value : {s.payload_bytes_sent, s.control_bytes_sent, selected[0], selected[1]}) add(value);
  for (const auto& levels : {s.bytes_sent, s.bytes_received, s.messages_sent}) {
    for (const std::int64_t value : levels) add(value);
  }
}

double median_of_column(const std::vector<double>& samples, std::size_t column) {
  std::vector<double> values;
  for (std::size_t i = column; i < samples.size(); i += figures) values.push_back(samples[i]);
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void fill_row(Row& row, std::vector<double> samples) {
  MPI_Allreduce(MPI_IN_PLACE, samples.data(), static_cast<int>(samples.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  std::size_t column = 0;
  for (double* figure : {&row.seconds, &row.select, &row.exchange, &row.apply, &row.payload_sent, &row.control_sent,
                         &row.selected_local, &row.selected_global})
    *figure = median_of_column(samples, column++);
  for (auto* levels : {&row.bytes_sent, &row.bytes_received, &row.messages_sent}) {
    for (double& value : *levels) value = median_of_column(samples, column++);
  }
}

void measure(const Communicator& comm, const Options& options, std::span<float> gradient, Row& row) {
  AllreducePlan plan(comm, config_of(options, row.algorithm));
  row.explanation = plan.explanation();
  if (comm.rank() == 0) fmt::print(stderr, "{}: {}", row.algorithm, row.explanation);
  std::vector<double> samples;
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    fill_gradient(gradient, options.spread, comm.rank(), t);
    if (t == 0) std::transform(gradient.begin(), gradient.end(), gradient.begin(), [](float g) { return head_start * g; });
    const double begin = start_together();
    plan.run(gradient);
    const double seconds = simgrid_get_clock() - begin;
    if (comm.rank() == 0)
      fmt::print(stderr, "{}: iteration {} of {}, {:.4f} ms\n", row.algorithm, t + 1, options.warmup + options.iterations,
                 seconds * 1e3);
    const Statistics& s = plan.statistics();
    if (t >= options.warmup)
      append(samples, s, {seconds, s.seconds_select, s.seconds_exchange, s.seconds_apply}, {s.selected_local, s.selected_global});
  }
  fill_row(row, std::move(samples));
}

constexpr std::string_view by_mpi = "mpi_allreduce";

/// Returns the indices of this rank's entries: a random one of each equal part of the array.
std::vector<std::int64_t> sum_indices(const Options& options, int rank) {
  const auto gap = std::max<std::int64_t>(1, std::llround(1 / options.density));
  std::vector<std::int64_t> indices;
  for (std::int64_t begin = 0; begin + gap <= options.count; begin += gap)
    indices.push_back(begin + static_cast<std::int64_t>(splitmix64(static_cast<std::uint64_t>(begin + rank * options.count)) %
                                                        static_cast<std::uint64_t>(gap)));
  return indices;
}

/// Returns the bytes that the last sum moved in loops of its own, which kernel_costs.cpp does not see.
double uncharged_bytes(const Options& options, int ranks, const SparseSumStatistics& did) {
  const auto count = static_cast<double>(options.count), entries = static_cast<double>(did.entries),
             entries_sum = static_cast<double>(did.entries_sum);
  if (did.algorithm == "split") {
    const double samples = 1.0 * sums::samples_of_rank * ranks;
    return 32 * samples * std::log2(samples);  // sorts pairs of 16 bytes
  }
  if (did.algorithm == "hash") return 32 * entries + 48 * entries_sum;  // deals entries, restores indices and orders the sum
  if (did.algorithm != "blocks") return 0;
  // Blocks, with a bit for each element, are filled with entries, and read.
  const double elements = sums::block_elements, in_array = std::ceil(count / elements);
  const double own = sums::expected_union(entries, 1, in_array), sum = sums::expected_union(own * ranks, ranks, in_array);
  return 8.2 * elements * (own + sum + sum / ranks) + 16 * (entries + entries_sum);
}

/// Measures a sum of doubles, or MPI's allreduce of the dense array.
void measure_sum(const Communicator& comm, const Options& options, Row& row) {
  const std::vector<std::int64_t> indices = sum_indices(options, comm.rank());
  const std::vector<double> values(indices.size(), 1);
  const auto entries = static_cast<std::int64_t>(indices.size());
  std::vector<double> samples, dense(row.algorithm == by_mpi ? static_cast<std::size_t>(options.count) : 0);
  std::optional<SparseSum> sum;
  if (row.algorithm != by_mpi)
    sum.emplace(comm, SparseSumConfig{.count = options.count, .expected_entries = entries, .algorithm = row.algorithm});
  SparseSumStatistics did;
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    const double begin = start_together();
    if (sum) {
      sum->run(SumInput::entries(indices, values));
      did = sum->statistics();
      row.explanation = did.algorithm;
      smpi_execute_flops(uncharged_bytes(options, comm.size(), did));
    } else {
      smpi_execute_flops(3.0 * sizeof(double) * static_cast<double>(options.count));  // of the additions
      MPI_Allreduce(MPI_IN_PLACE, dense.data(), static_cast<int>(options.count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    const double seconds = simgrid_get_clock() - begin;
    if (t >= options.warmup) append(samples, did, {seconds, 0, seconds, 0}, {entries, did.entries_sum});
  }
  fill_row(row, std::move(samples));
}

int count_nodes(const Communicator& comm) {
  int leads = 1;
  for (int peer = 0; peer < comm.rank(); ++peer) leads &= comm.level(peer) > Level::node;
  MPI_Allreduce(MPI_IN_PLACE, &leads, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return leads;
}

void run(const Options& options) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!options.machine_file.empty()) return calibrate_simulated(comm, options.machine_file);
  const int nodes = count_nodes(comm);
  std::vector<float> gradient(options.sums.empty() ? static_cast<std::size_t>(options.count) : 0);
  std::vector<Row> rows;
  for (const std::string& algorithm : options.sums.empty() ? options.algorithms : options.sums) {
    Row row{.algorithm = algorithm,
            .error = {},
            .ranks = comm.size(),
            .nodes = nodes,
            .count = options.count,
            .density = options.density,
            .iterations = options.iterations};
    try {
      if (options.sums.empty())
        measure(comm, options, gradient, row);
      else
        measure_sum(comm, options, row);
    } catch (const Error& error) {  // thrown on every rank
      row.error = error.what();
    }
    rows.push_back(std::move(row));
  }
  if (comm.rank() != 0) return;
  print_table(rows);
  if (!options.json.empty()) write_json(rows, options.json);
}

/// Returns an error text for CLI11, or an empty one.
std::string check_algorithm(const std::string& wanted) {
  AllreduceConfig config;
  if (parse_algorithm(wanted, config)) return {};
  std::string known;
  for (const AlgorithmInfo& algorithm : algorithms()) known += fmt::format(" {}", algorithm.name);
  return fmt::format("'{}' is not NAME, NAME+THRESHOLD, NAME:SCHEDULE or NAME:phased/RADIX; known names are{}", wanted, known);
}

/// Returns all sums, and what they are compared with.
std::vector<std::string> names_of_sums() {
  std::vector<std::string> names = {std::string(by_mpi), "auto"};
  for (const sums::SumRow* sum : sums::sum_registry()) {
    if (sum->needs == sums::Shown::nothing) names.emplace_back(sum->name);
  }
  return names;
}

Options default_options() {
  Options options;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.host_memory) options.algorithms.emplace_back(algorithm.name);
  }
  return options;
}

}  // namespace
}  // namespace weir::simulation

int main(int argc, char** argv) {
  using namespace weir::simulation;
  Options options = default_options();
  CLI::App app("Weir's allreduce algorithms on a simulated machine");
  app.add_option("--count", options.count, "elements of the gradient")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--density", options.density, "share of entries delivered by sparse algorithms")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_option("--algorithms", options.algorithms,
                 "NAME, NAME+THRESHOLD, NAME:SCHEDULE or NAME:phased/RADIX each; all of the registry by default")
      ->delimiter(',')
      ->check(check_algorithm);
  app.add_option("--sums", options.sums, "instead, exact sums of doubles, each rank with entries for a share of the array: names")
      ->delimiter(',')
      ->check(CLI::IsMember(names_of_sums()));
  app.add_option("--iterations", options.iterations, "measured iterations")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--warmup", options.warmup, "iterations before those")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--spread", options.spread, "how much the ranks' gradients have in common, see gradients.hpp")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--json", options.json, "rank 0 also writes the rows to this file");
  app.add_option("--calibrate", options.machine_file, "instead write this machine file for `weir predict`");
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  run(options);
  MPI_Finalize();
  return 0;
}
