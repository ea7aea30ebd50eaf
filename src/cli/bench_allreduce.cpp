// weir bench allreduce: measures every algorithm against MPI_Allreduce of the same dense array, in the same run. Start it with
// mpirun.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/standard_error.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/gradient_buffer.hpp"
#include "cli/mpi_start.hpp"
#include "cli/named_compressors.hpp"
#include "cli/named_option.hpp"
#include "cli/named_threshold.hpp"
#include "cli/report.hpp"
#include "collectives/allreduce.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 4194304;
  double density = 0.01;
  int iterations = 20, warmup = 3;
  std::vector<std::string> algorithms = {"oktopk"};
  std::vector<std::string> compressors;  ///< empty: the algorithms' own
  std::string algorithm_parameters, parameters, result = "both", input, json;
  bool baseline = true, side_by_side = false;
  AllreduceConfig config;
};

/// Returns the bytes sent to ranks at these levels.
std::int64_t bytes_sent(const Statistics& s, Level first, Level last) {
  std::int64_t bytes = 0;
  for (auto level = static_cast<std::size_t>(first); level <= static_cast<std::size_t>(last); ++level) bytes += s.bytes_sent[level];
  return bytes;
}

/// What to measure.
struct Subject {
  std::string algorithm, parameters;
  bool dense = false;  ///< true if it delivers in place
  NamedCompressor compressor{};
};

/// Measures one algorithm, delivering in place (`dense`) or sparse, against the baseline in the same iteration.
class Measurement {
 public:
  Measurement(const Communicator& comm, const Options& options, const Subject& subject, GradientBuffer& buffer)
      : options_(options), dense_(subject.dense), buffer_(buffer), plan_(comm, config_of(options, subject)) {
    const std::string& algorithm = subject.algorithm;
    const bool dense = subject.dense;
    row_ = {.benchmark = dense ? "allreduce_dense" : "allreduce_sparse",
            .algorithm = algorithm,
            .algorithm_parameters = subject.parameters,
            .compressor = subject.compressor.names,
            .compressor_parameters = subject.compressor.parameters,
            .memory = options.config.memory == MemorySpace::host ? "host" : "cuda",
            .count = options.count,
            .density = options.density,
            .ranks = comm.size(),
            .baseline = options.baseline ? buffer.baseline() : "",
            .selected_local_min = options.count,
            .selected_global_min = options.count};
  }

  /// Returns the number of iterations that are not measured. By then, automatic choice must have decided.
  [[nodiscard]] int warmup() const {
    const bool tries = row_.algorithm.starts_with("auto") && options_.config.trial_iterations > 0;
    return std::max(options_.warmup, tries ? static_cast<int>(4 * options_.config.trial_iterations) + 1 : 0);
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{}{}{}, {} result", row_.algorithm, row_.compressor.empty() ? "" : " of ", row_.compressor,
                       dense_ ? "dense" : "sparse");
  }

  void iterate(const std::vector<float>& gradient, bool counts) {
    double base_ms = 0;
    if (options_.baseline) {
      buffer_.fill(gradient);
      base_ms = milliseconds([&] { buffer_.allreduce(); });
    }
    buffer_.fill(gradient);
    std::int64_t made = 0;
    const double ms = milliseconds([&] {
      const std::int64_t before = allocations_so_far();
      buffer_.run(plan_, dense_);
      made = allocations_so_far() - before;
    });
    if (!counts) return;
    const Statistics& s = plan_.statistics();
    times_.push_back(ms);
    baseline_.push_back(base_ms);
    select_.push_back(s.seconds_select * 1e3);
    in_node_.push_back(s.seconds_in_node * 1e3);
    exchange_.push_back(s.seconds_exchange * 1e3);
    apply_.push_back(s.seconds_apply * 1e3);
    allocations_ += over_ranks(made, MPI_MAX);
    row_.bytes_sent_max = std::max(row_.bytes_sent_max, over_ranks(bytes_sent(s, Level::self, Level::system), MPI_MAX));
    bytes_in_node_ += over_ranks(bytes_sent(s, Level::self, Level::node), MPI_MAX);
    bytes_across_ += over_ranks(bytes_sent(s, Level::switch_group, Level::system), MPI_MAX);
    bytes_in_switch_ += over_ranks(bytes_sent(s, Level::switch_group, Level::switch_group), MPI_MAX);
    bytes_across_switches_ += over_ranks(bytes_sent(s, Level::system, Level::system), MPI_MAX);
    row_.selected_local_min = std::min(row_.selected_local_min, over_ranks(s.selected_local, MPI_MIN));
    row_.selected_local_max = std::max(row_.selected_local_max, over_ranks(s.selected_local, MPI_MAX));
    row_.selected_global_min = std::min(row_.selected_global_min, s.selected_global);
    row_.selected_global_max = std::max(row_.selected_global_max, s.selected_global);
  }

  [[nodiscard]] Row row() const {
    Row row = row_;
    row.median_ms = median(times_);
    row.min_ms = minimum(times_);
    row.baseline_ms = median(baseline_);
    row.ratio = options_.baseline ? row.median_ms / row.baseline_ms : 0;
    row.in_node_ms = median(in_node_);
    row.ran_as = plan_.config().algorithm;
    row.ran_compressor = text_of(compressor_of(plan_.config()));
    row.bytes_in_node = bytes_in_node_ / options_.iterations;
    row.bytes_across = bytes_across_ / options_.iterations;
    row.bytes_in_switch = bytes_in_switch_ / options_.iterations;
    row.bytes_across_switches = bytes_across_switches_ / options_.iterations;
    row.select_ms = median(select_);
    row.exchange_ms = median(exchange_);
    row.apply_ms = median(apply_);
    row.allocations = static_cast<double>(allocations_) / options_.iterations;
    return row;
  }

 private:
  static AllreduceConfig config_of(const Options& options, const Subject& subject) {
    AllreduceConfig config = options.config;
    config.count = options.count;
    config.density = options.density;
    config.algorithm = subject.algorithm;
    config.algorithm_parameters = subject.parameters;
    config.compressor = subject.compressor.names;
    config.compressor_parameters = subject.compressor.parameters;
    return config;
  }

  const Options& options_;
  bool dense_;
  GradientBuffer& buffer_;
  AllreducePlan plan_;
  Row row_;
  std::vector<double> times_, baseline_, select_, in_node_, exchange_, apply_;
  std::int64_t allocations_ = 0, bytes_in_node_ = 0, bytes_across_ = 0, bytes_in_switch_ = 0, bytes_across_switches_ = 0;
};

/// Measures subjects one after another or, side by side, all in every iteration.
std::vector<Row> measure(const Communicator& comm, const Options& options, const Gradients& gradients,
                         const std::vector<Subject>& list) {
  const auto buffer = make_gradient_buffer(comm, options.config.memory, options.count);
  std::vector<Row> rows;
  for (std::size_t first = 0; first < list.size();) {
    const std::size_t last = options.side_by_side ? list.size() : first + 1;
    std::vector<std::unique_ptr<Measurement>> group;
    int warmup = 0;
    for (; first < last; ++first) {
      group.push_back(std::make_unique<Measurement>(comm, options, list[first], *buffer));
      warmup = std::max(warmup, group.back()->warmup());
    }
    Progress progress(comm.rank() == 0, group.size() == 1 ? group[0]->name() : "side by side", options.iterations + warmup);
    for (int t = 0; t < options.iterations + warmup; ++t) {
      const auto& gradient = gradients[static_cast<std::size_t>(t) % gradients.size()];
      // The order rotates, because the first and the last of an iteration have other neighbours.
      for (std::size_t i = 0; i < group.size(); ++i)
        group[(i + static_cast<std::size_t>(t)) % group.size()]->iterate(gradient, t >= warmup);
      progress.at(t + 1);
    }
    for (const auto& measurement : group) rows.push_back(measurement->row());
  }
  return rows;
}

bool all_algorithms(const Options& options) { return options.algorithms == std::vector<std::string>{"all"}; }

std::vector<std::string> wanted(const Options& options) {
  if (!all_algorithms(options)) return options.algorithms;
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    const bool runs = options.config.memory == MemorySpace::host ? algorithm.host_memory : algorithm.cuda_memory;
    if (runs) names.emplace_back(algorithm.name);
  }
  return names;
}

bool delivers_sparse(const std::string& name) {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.name == name) return algorithm.sparse;
  }
  return name == "auto_sparse";
}

/// Returns whether plans of `algorithm` accept what `compressor` makes of gradients in `memory`.
bool takes(const std::string& algorithm, const compress::Compressor& compressor, MemorySpace memory) {
  const auto is = [&](compress::Carriage carriage) { return compressor && compressor.row->carriage == carriage; };
  if (algorithm == "auto") return memory == MemorySpace::host;
  if (algorithm == "auto_sparse") return is(compress::Carriage::sparse);
  const AllreduceRow& row = find_allreduce(algorithm);
  // The results of linear compressors are summed in host memory, wherever the gradient is.
  return carries(row, compressor) && row.runs_in(is(compress::Carriage::linear) ? MemorySpace::host : memory);
}

/// Returns the `algorithms` that accept every compressor in `compressor`. If it names several, returns automatic choice only, which
/// chooses one of them.
std::vector<std::string> carriers(const std::vector<std::string>& algorithms, const NamedCompressor& compressor,
                                  MemorySpace memory) {
  const std::vector<compress::Compressor> made = compressor.made();
  std::vector<std::string> names;
  for (const std::string& name : algorithms) {
    const bool fits = std::all_of(made.begin(), made.end(), [&](const auto& c) { return takes(name, c, memory); });
    if (fits && (!compressor.several() || is_automatic(name))) names.push_back(name);
  }
  return names;
}

/// Returns the names that --algorithm accepts, except "all".
std::vector<std::string> known_algorithms() {
  std::vector<std::string> names;
  for (const AllreduceRow& row : allreduce_registry()) names.emplace_back(row.name);
  names.insert(names.end(), {"auto", "auto_sparse"});
  return names;
}

[[noreturn]] void refuse(const Options& options, const NamedCompressor& compressor) {
  const MemorySpace memory = options.config.memory;
  const std::vector<std::string> able = carriers(known_algorithms(), compressor, memory);
  if (able.empty())
    throw Error(WEIR_ERR_ARGUMENT,
                fmt::format("compressor is {}: in {} memory automatic choice is among sparse ones; give names with "
                            "commas between them instead",
                            compressor.names, name_of(memory)));
  throw Error(WEIR_ERR_ARGUMENT,
              fmt::format("compressor is {}: {} cannot {}; in {} memory, --algorithm may be {}", compressor.names,
                          joined(options.algorithms), compressor.several() ? "choose among these" : "carry it", name_of(memory),
                          joined(able)));
}

/// Returns the requested algorithms that carry the compressor. With "all", automatic choice is left out, or, for several
/// compressors, is the only one.
std::vector<std::string> carriers(const Options& options, const NamedCompressor& compressor) {
  std::vector<std::string> names = all_algorithms(options) ? known_algorithms() : options.algorithms;
  names = carriers(names, compressor, options.config.memory);
  if (all_algorithms(options) && compressor.several() && !names.empty()) names.resize(1);
  if (all_algorithms(options) && !compressor.several()) std::erase_if(names, is_automatic);
  return names;
}

/// Throws if no algorithm carries a compressor that was named. With all compressors, adds such ones to `left_out` instead.
std::vector<Subject> subjects(const Options& options, std::vector<std::string>& left_out) {
  std::vector<Subject> list;
  const auto add = [&](const std::string& algorithm, const NamedCompressor& compressor) {
    const std::string parameters = is_automatic(algorithm)
                                       ? options.algorithm_parameters
                                       : parameters_if_chosen(find_allreduce(algorithm), options.algorithm_parameters).text();
    if (delivers_sparse(algorithm) && options.result != "in_place") list.push_back({algorithm, parameters, false, compressor});
    if (options.result != "sparse") list.push_back({algorithm, parameters, true, compressor});
  };
  const bool all = names_all(options.compressors);
  std::vector<std::string> names = all ? all_compressors() : options.compressors;
  if (all) names.insert(names.begin(), "none");
  const std::vector<NamedCompressor> compressors = named_compressors(names, options.parameters);
  if (compressors.empty()) {
    for (const std::string& algorithm : wanted(options)) add(algorithm, {});
  }
  for (const NamedCompressor& compressor : compressors) {
    const std::vector<std::string> able = carriers(options, compressor);
    if (able.empty() && !all) refuse(options, compressor);
    if (able.empty()) left_out.push_back(compressor.names);
    for (const std::string& algorithm : able) add(algorithm, compressor);
  }
  if (list.empty() && options.result == "sparse")
    throw Error(WEIR_ERR_ARGUMENT, "--result is sparse: none of the algorithms delivers one; choose in_place");
  return list;
}

void run(Options options) {
  std::vector<std::string> left_out;
  const std::vector<Subject> list = subjects(options, left_out);
  start_mpi();
  {
    const Communicator comm(MPI_COMM_WORLD);
    if (comm.rank() == 0) require_writable(options.json);
    if (comm.rank() == 0 && !left_out.empty())
      print_error("left out, since {} cannot carry them: {}\n", joined(options.algorithms), joined(left_out));
    const Gradients gradients = options.input.empty() ? make_gradients(options.count, comm.rank(), 3)
                                                      : read_gradients(options.input, options.count, comm.rank(), comm.size());
    const std::vector<Row> rows = measure(comm, options, gradients, list);
    if (comm.rank() == 0) {
      print_table(rows);
      if (!options.json.empty()) write_json(rows, options.json);
    }
  }
}

}  // namespace

void add_bench_allreduce(Command& bench) {
  auto options = std::make_shared<Options>();
  Command command = bench.add(
      "allreduce", "Measure allreduce algorithms, compared with MPI_Allreduce of the same dense array; start with mpirun");
  std::vector<std::string> names = {"all", "auto", "auto_sparse"};
  for (const AlgorithmInfo& algorithm : algorithms()) names.emplace_back(algorithm.name);
  command.option("--count", options->count, "elements of the gradient").between(1, 2147483647);
  command.option("--density", options->density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0);
  const Option algorithm =
      command
          .option("--algorithm", options->algorithms,
                  "algorithms to measure; with --compressor and without this option, all that carry the compressor")
          .one_of(names)
          .delimiter(',');
  add_algorithm_parameters(command, options->algorithm_parameters);
  command
      .option("--compressor", options->compressors,
              "compressors to measure, none or all, each with the algorithms of --algorithm that carry it; of names joined by |, "
              "automatic choice takes one")
      .delimiter(',');
  add_compressor_parameters(command, options->parameters);
  add_named(command, "--memory", options->config.memory, "where the gradient is; cuda means the GPU nearest to each rank");
  command
      .option("--trial-iterations", options->config.trial_iterations,
              "with auto, runs of each candidate before the fastest is kept")
      .non_negative();
  command.option("--result", options->result, "form of the result of sparse algorithms").one_of({"sparse", "in_place", "both"});
  command.flag("--baseline,!--no-baseline", options->baseline, "measure MPI_Allreduce, too (the default), or not");
  command.flag("--side-by-side", options->side_by_side,
               "run all algorithms in every iteration, so that other work on the machine affects all equally");
  add_threshold(command, options->config.threshold, options->config.threshold_parameters);
  add_named(command, "--wire", options->config.wire_format, "format of indices in messages");
  add_named(command, "--values", options->config.wire_values, "type of values in messages");
  command.option("--iterations", options->iterations, "measured iterations").positive();
  command.option("--warmup", options->warmup, "iterations before the measured ones").non_negative();
  command.option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x ranks x count").existing_file();
  command.option("--json", options->json, "also write the rows to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench allreduce --algorithm all --json rows.json",
                    "mpirun -n 4 weir bench allreduce --algorithm oktopk --algorithm-parameters window=8",
                    "mpirun -n 4 weir bench allreduce --compressor all"});
  command.action([options, algorithm] {
    if (!options->compressors.empty() && !algorithm.given()) options->algorithms = {"all"};
    run(*options);
  });
}

}  // namespace weir::cli
