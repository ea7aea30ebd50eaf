// weir bench allreduce: every algorithm against MPI_Allreduce of the same dense array, in the same run. Start it with mpirun.
#include <fmt/format.h>
#include <weir/mpi.h>

#include <algorithm>
#include <memory>

#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 4194304;
  double density = 0.01;
  int iterations = 20, warmup = 3;
  std::vector<std::string> algorithms = {"oktopk"};
  std::string result = "both", input, json;
  bool baseline = true;
  AllreduceConfig config;
};

/// Bytes sent to ranks of the same node, or of other nodes.
std::int64_t bytes_sent(const Statistics& s, bool across) {
  std::int64_t bytes = 0;
  for (std::size_t level = 0; level < s.bytes_sent.size(); ++level) {
    if ((level > static_cast<std::size_t>(Level::node)) == across) bytes += s.bytes_sent[level];
  }
  return bytes;
}

/// One algorithm, delivering in place (`dense`) or sparse, interleaved with the baseline.
Row measure(const Communicator& comm, const Options& options, const Gradients& gradients, const std::string& algorithm,
            bool dense) {
  AllreduceConfig config = options.config;
  config.count = options.count;
  config.density = options.density;
  config.algorithm = algorithm;
  AllreducePlan plan(comm, config);
  Row row{.benchmark = dense ? "allreduce_dense" : "allreduce_sparse",
          .algorithm = algorithm,
          .count = options.count,
          .density = options.density,
          .ranks = comm.size(),
          .baseline = options.baseline ? "MPI_Allreduce" : "",
          .selected_local_min = options.count,
          .selected_global_min = options.count};
  std::vector<float> buffer(static_cast<std::size_t>(options.count));
  std::vector<double> times, baseline, select, in_node, exchange, apply;
  const bool tries = algorithm.starts_with("auto") && config.trial_iterations > 0;
  const int warm = std::max(options.warmup, tries ? static_cast<int>(4 * config.trial_iterations) + 1 : 0);  // until it has decided
  Progress progress(comm.rank() == 0, fmt::format("{}, {} result", row.algorithm, dense ? "dense" : "sparse"),
                    options.iterations + warm);
  std::int64_t allocations = 0, bytes_in_node = 0, bytes_across = 0;
  for (int t = 0; t < options.iterations + warm; ++t) {
    const auto& g = gradients[static_cast<std::size_t>(t) % gradients.size()];
    buffer = g;
    double base_ms = 0;
    if (options.baseline) {
      base_ms = milliseconds(
          [&] { MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(options.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    }
    buffer = g;
    std::int64_t made = 0;
    const double ms = milliseconds([&] {
      const std::int64_t before = allocations_so_far();
      if (dense)
        plan.run(buffer);
      else
        plan.run_sparse(buffer);
      made = allocations_so_far() - before;
    });
    progress.at(t + 1);
    if (t < warm) continue;
    const Statistics& s = plan.statistics();
    times.push_back(ms);
    baseline.push_back(base_ms);
    select.push_back(s.seconds_select * 1e3);
    in_node.push_back(s.seconds_in_node * 1e3);
    exchange.push_back(s.seconds_exchange * 1e3);
    apply.push_back(s.seconds_apply * 1e3);
    allocations += over_ranks(made, MPI_MAX);
    row.bytes_sent_max = std::max(row.bytes_sent_max, over_ranks(bytes_sent(s, false) + bytes_sent(s, true), MPI_MAX));
    bytes_in_node += over_ranks(bytes_sent(s, false), MPI_MAX);
    bytes_across += over_ranks(bytes_sent(s, true), MPI_MAX);
    row.selected_local_min = std::min(row.selected_local_min, over_ranks(s.selected_local, MPI_MIN));
    row.selected_local_max = std::max(row.selected_local_max, over_ranks(s.selected_local, MPI_MAX));
    row.selected_global_min = std::min(row.selected_global_min, s.selected_global);
    row.selected_global_max = std::max(row.selected_global_max, s.selected_global);
  }
  row.median_ms = median(times);
  row.min_ms = minimum(times);
  row.baseline_ms = median(baseline);
  row.ratio = options.baseline ? row.median_ms / row.baseline_ms : 0;
  row.in_node_ms = median(in_node);
  row.ran_as = plan.config().algorithm;
  row.bytes_in_node = bytes_in_node / options.iterations;
  row.bytes_across = bytes_across / options.iterations;
  row.select_ms = median(select);
  row.exchange_ms = median(exchange);
  row.apply_ms = median(apply);
  row.allocations = static_cast<double>(allocations) / options.iterations;
  return row;
}

std::vector<std::string> wanted(const Options& options) {
  if (options.algorithms != std::vector<std::string>{"all"}) return options.algorithms;
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) names.emplace_back(algorithm.name);
  return names;
}

bool delivers_sparse(const std::string& name) {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.name == name) return algorithm.sparse;
  }
  return name == "auto_sparse";
}

void run(Options options) {
  MPI_Init(nullptr, nullptr);
  {
    const Communicator comm(MPI_COMM_WORLD);
    const Gradients gradients = options.input.empty() ? make_gradients(options.count, comm.rank(), 3)
                                                      : read_gradients(options.input, options.count, comm.rank(), comm.size());
    std::vector<Row> rows;
    for (const std::string& algorithm : wanted(options)) {
      if (delivers_sparse(algorithm) && options.result != "in_place")
        rows.push_back(measure(comm, options, gradients, algorithm, false));
      if (options.result != "sparse") rows.push_back(measure(comm, options, gradients, algorithm, true));
    }
    if (comm.rank() == 0) {
      print_table(rows);
      if (!options.json.empty()) write_json(rows, options.json);
    }
  }
}

}  // namespace

void add_bench_allreduce(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("allreduce", "Allreduce algorithms against MPI_Allreduce of the same dense array; start with mpirun");
  std::vector<std::string> names = {"all", "auto", "auto_sparse"};
  for (const AlgorithmInfo& algorithm : algorithms()) names.emplace_back(algorithm.name);
  command->add_option("--count", options->count, "elements of the gradient")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{2147483647}))
      ->capture_default_str();
  command->add_option("--density", options->density, "share of entries delivered by sparse algorithms")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithms, "registry names, auto, auto_sparse or all")
      ->check(CLI::IsMember(names))
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--trial-iterations", options->config.trial_iterations, "auto: runs of each candidate before the fastest stays")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--result", options->result, "of sparse algorithms: sparse, in_place or both")
      ->check(CLI::IsMember({"sparse", "in_place", "both"}))
      ->capture_default_str();
  command->add_flag("--baseline,!--no-baseline", options->baseline, "measure MPI_Allreduce beside (the default)");
  add_named(command, "--threshold", options->config.threshold,
            {{"exact", Threshold::exact},
             {"reuse", Threshold::reuse},
             {"mstopk", Threshold::mstopk},
             {"sampled", Threshold::sampled},
             {"gaussian", Threshold::gaussian},
             {"sidco", Threshold::sidco}},
            "how ranks select");
  add_named(command, "--wire", options->config.wire_format, {{"compact", WireFormat::compact}, {"coo", WireFormat::coo}},
            "how indices travel");
  add_named(command, "--values", options->config.wire_values,
            {{"native", WireValues::native}, {"bfloat16", WireValues::bfloat16}, {"float16", WireValues::float16}},
            "how values travel");
  command->add_option("--iterations", options->iterations, "measured iterations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--warmup", options->warmup, "iterations before those that are measured")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x ranks x count")
      ->check(CLI::ExistingFile);
  command->add_option("--json", options->json, "rank 0 also writes the rows to this file");
  command->callback([options] { run(*options); });
}

}  // namespace weir::cli
