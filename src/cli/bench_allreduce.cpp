// weir bench allreduce: measures every algorithm against MPI_Allreduce of the same dense array, in the same run. Start it with
// mpirun.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/standard_error.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/gradient_buffer.hpp"
#include "cli/named_options.hpp"
#include "collectives/allreduce.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"

namespace weir::cli {
namespace {

struct Options {
  int iterations = 20, warmup = 3;
  std::vector<std::string> algorithms = {"oktopk"};
  std::vector<std::string> compressors;  ///< empty: the algorithms' own
  std::string algorithm_parameters, parameters, result = "both", input, json;
  bool baseline = true, side_by_side = false, smooth = false;
  AllreduceConfig config{.count = 4194304, .density = 0.01};  ///< without algorithm and compressor
};

/// Returns the bytes sent to ranks at these levels.
std::int64_t bytes_sent(const Statistics& s, Level first, Level last) {
  std::int64_t bytes = 0;
  for (auto level = static_cast<std::size_t>(first); level <= static_cast<std::size_t>(last); ++level) bytes += s.bytes_sent[level];
  return bytes;
}

/// What to measure.
struct Subject {
  AllreduceConfig config;
  bool dense;  ///< true if it delivers in place
};

/// Measures one algorithm, delivering in place (`dense`) or sparse, against the baseline in the same iteration.
class Measurement {
 public:
  Measurement(const Communicator& comm, const Options& options, const Subject& subject, GradientBuffer& buffer)
      : options_(options), subject_(subject), ranks_(comm.size()), buffer_(buffer), plan_(comm, subject.config) {}

  /// Returns the number of iterations that are not measured. By then, automatic choice must have decided.
  [[nodiscard]] int warmup() const {
    const bool tries = is_automatic(subject_.config.algorithm) && options_.config.trial_iterations > 0;
    return std::max(options_.warmup, tries ? static_cast<int>(6 * options_.config.trial_iterations) + 1 : 0);
  }
  [[nodiscard]] std::string name() const {
    const std::string& compressor = subject_.config.compressor;
    return fmt::format("{}{}{}, {} result", subject_.config.algorithm, compressor.empty() ? "" : " of ", compressor,
                       subject_.dense ? "dense" : "sparse");
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
      buffer_.run(plan_, subject_.dense);
      made = allocations_so_far() - before;
    });
    if (!counts) return;
    const Statistics& s = plan_.statistics();
    add(samples_, "median_ms", ms);
    add(samples_, "baseline_ms", base_ms);
    add(samples_, "select_ms", s.seconds_select * 1e3);
    add(samples_, "in_node_ms", s.seconds_in_node * 1e3);
    add(samples_, "exchange_ms", s.seconds_exchange * 1e3);
    add(samples_, "apply_ms", s.seconds_apply * 1e3);
    const auto add_over_ranks = [&](std::string_view figure, std::int64_t value, MPI_Op op) {
      add(samples_, figure, over_ranks(value, op));
    };
    add_over_ranks("allocations_per_iteration", made, MPI_MAX);
    add_over_ranks("bytes_sent_max", bytes_sent(s, Level::self, Level::system), MPI_MAX);
    add_over_ranks("bytes_in_node", bytes_sent(s, Level::self, Level::node), MPI_MAX);
    add_over_ranks("bytes_across", bytes_sent(s, Level::switch_group, Level::system), MPI_MAX);
    add_over_ranks("bytes_in_switch", bytes_sent(s, Level::switch_group, Level::switch_group), MPI_MAX);
    add_over_ranks("bytes_across_switches", bytes_sent(s, Level::system, Level::system), MPI_MAX);
    add_over_ranks("selected_local_min", s.selected_local, MPI_MIN);
    add_over_ranks("selected_local_max", s.selected_local, MPI_MAX);
    add(samples_, "selected_global_min", s.selected_global);
    add(samples_, "selected_global_max", s.selected_global);
  }

  [[nodiscard]] JsonValue row() const {
    JsonValue row = result_row({{"benchmark", subject_.dense ? "allreduce_dense" : "allreduce_sparse"},
                                {"algorithm", subject_.config.algorithm},
                                {"algorithm_parameters", subject_.config.algorithm_parameters},
                                {"compressor", subject_.config.compressor},
                                {"compressor_parameters", subject_.config.compressor_parameters},
                                {"memory", name_of(options_.config.memory)},
                                {"count", options_.config.count},
                                {"density", options_.config.density},
                                {"ranks", ranks_},
                                {"baseline", options_.baseline ? buffer_.baseline() : ""},
                                {"ran_as", plan_.config().algorithm},
                                {"ran_compressor", text_of(compressor_of(plan_.config()))}});
    for (const auto& [figure, values] : samples_) {
      if (figure.ends_with("_ms"))
        row.set(figure, median(values));
      else if (figure.ends_with("_min"))
        row.set(figure, static_cast<std::int64_t>(minimum(values)));
      else if (figure.ends_with("_max"))
        row.set(figure, static_cast<std::int64_t>(maximum(values)));
      else if (figure.starts_with("bytes_"))
        row.set(figure, static_cast<std::int64_t>(mean(values)));
      else
        row.set(figure, mean(values));
    }
    row.set("min_ms", minimum(samples_.at("median_ms")));
    if (options_.baseline) row.set("ratio", median(samples_.at("median_ms")) / median(samples_.at("baseline_ms")));
    return row;
  }

 private:
  const Options& options_;
  const Subject& subject_;
  int ranks_;
  GradientBuffer& buffer_;
  AllreducePlan plan_;
  Samples samples_;
};

/// Measures subjects one after another or, side by side, all in every iteration.
Rows measure(const Communicator& comm, const Options& options, const Gradients& gradients, const std::vector<Subject>& list) {
  GradientBuffer buffer(comm, options.config.memory, options.config.count);
  Rows rows;
  for (std::size_t first = 0; first < list.size();) {
    const std::size_t last = options.side_by_side ? list.size() : first + 1;
    std::vector<std::unique_ptr<Measurement>> group;
    int warmup = 0;
    for (; first < last; ++first) {
      group.push_back(std::make_unique<Measurement>(comm, options, list[first], buffer));
      warmup = std::max(warmup, group.back()->warmup());
    }
    Progress progress(comm.rank() == 0, group.size() == 1 ? group[0]->name() : "side by side", options.iterations + warmup);
    in_turns(group, options.iterations + warmup, progress, [&](const auto& measurement, int t) {
      measurement->iterate(gradients[static_cast<std::size_t>(t) % gradients.size()], t >= warmup);
    });
    for (const auto& measurement : group) rows.push_back(measurement->row());
  }
  return rows;
}

/// Returns the names that --algorithm accepts, except "all".
std::vector<std::string> known_algorithms() {
  std::vector<std::string> names = names_in(allreduce_registry());
  names.insert(names.end(), {"auto", "auto_sparse"});
  return names;
}

bool all_algorithms(const Options& options) { return options.algorithms == std::vector<std::string>{"all"}; }

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

[[noreturn]] void refuse(const Options& options, const NamedCompressor& compressor) {
  const std::string_view memory = name_of(options.config.memory);
  const std::vector<std::string> able = carriers(known_algorithms(), compressor, options.config.memory);
  require(!able.empty(),
          "compressor is {}: in {} memory automatic choice is among sparse ones; give names with commas between them instead",
          compressor.names, memory);
  fail(WEIR_ERR_ARGUMENT, "compressor is {}: {} cannot {}; in {} memory, --algorithm may be {}", compressor.names,
       joined(options.algorithms), compressor.several() ? "choose among these" : "carry it", memory, joined(able));
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
    AllreduceConfig config = options.config;
    config.algorithm = algorithm;
    config.algorithm_parameters = is_automatic(algorithm)
                                      ? options.algorithm_parameters
                                      : parameters_if_chosen(find_allreduce(algorithm), options.algorithm_parameters).text();
    config.compressor = compressor.names;
    config.compressor_parameters = compressor.parameters;
    const bool sparse = is_automatic(algorithm) ? algorithm == "auto_sparse" : find_allreduce(algorithm).sparse();
    if (sparse && options.result != "in_place") list.push_back({config, false});
    if (options.result != "sparse") list.push_back({config, true});
  };
  const bool all = names_all(options.compressors);
  const std::vector<NamedCompressor> compressors =
      named_compressors(all ? names_in(compress::compressor_registry(), {"none"}) : options.compressors, options.parameters);
  if (compressors.empty()) {
    for (const std::string& algorithm : all_algorithms(options) ? known_algorithms() : options.algorithms) {
      if (!all_algorithms(options) || (!is_automatic(algorithm) && find_allreduce(algorithm).runs_in(options.config.memory)))
        add(algorithm, {});
    }
  }
  for (const NamedCompressor& compressor : compressors) {
    const std::vector<std::string> able = carriers(options, compressor);
    if (able.empty() && !all) refuse(options, compressor);
    if (able.empty()) left_out.push_back(compressor.names);
    for (const std::string& algorithm : able) add(algorithm, compressor);
  }
  require(!list.empty() || options.result != "sparse", "--result is sparse: none of the algorithms delivers one; choose in_place");
  return list;
}

void run(Options options) {
  std::vector<std::string> left_out;
  std::vector<Subject> list = subjects(options, left_out);
  const Communicator comm = start_ranks(options.json);
  if (comm.rank() == 0 && !left_out.empty())
    print_error("left out, since {} cannot carry them: {}\n", joined(options.algorithms), joined(left_out));
  const Gradients gradients = options.smooth ? make_fields(options.config.count, comm.rank(), 3)
                              : options.input.empty()
                                  ? make_gradients(options.config.count, comm.rank(), 3)
                                  : read_gradients(options.input, options.config.count, comm.rank(), comm.size());
  for (Subject& subject : list) subject.config.count = options.config.count;  // of the file, perhaps
  const Rows rows = measure(comm, options, gradients, list);
  if (comm.rank() != 0) return;
  print_result_table(rows);
  write_rows(rows, options.json);
}

}  // namespace

void add_bench_allreduce(Command& bench) {
  auto options = std::make_shared<Options>();
  Command command = bench.add(
      "allreduce", "Measure allreduce algorithms, compared with MPI_Allreduce of the same dense array; start with mpirun");
  command.option("--count", options->config.count, "elements of the gradient").between(1, 2147483647);
  command.option("--density", options->config.density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0);
  const Option algorithm =
      command
          .option("--algorithm", options->algorithms,
                  "algorithms to measure; with --compressor and without this option, all that carry the compressor")
          .one_of(names_in(allreduce_registry(), {"all", "auto", "auto_sparse"}))
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
  const Option input =
      command.option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x ranks x count")
          .existing_file();
  command.flag("--smooth", options->smooth, "sum smooth fields, as of a simulation, instead of heavy-tailed gradients")
      .excludes(input);
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
