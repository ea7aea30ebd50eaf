// weir bench select: measures local compensation and selection in one thread against one plain pass over the same arrays, and how
// close each method comes to k and to the exact selection. In CUDA memory, it measures a plan of one rank, whose exchange does
// nothing.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "cli/bench_input.hpp"
#include "cli/commands.hpp"
#include "cli/gradient_buffer.hpp"
#include "cli/named_options.hpp"
#include "cli/report.hpp"
#include "communicator/communicator.hpp"
#include "contribution/contribution.hpp"
#include "cuda/runtime.hpp"
#include "kernels/kernels.hpp"
#include "kernels/read_ahead.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::cli {
namespace {

constexpr int warmup = 3;

struct Options {
  std::int64_t count = 16777216;
  double density = 0.01;
  int iterations = 20;
  MemorySpace memory = MemorySpace::host;
  std::string threshold = "all", parameters, input, json;

  [[nodiscard]] std::int64_t k() const { return std::max<std::int64_t>(1, std::llround(density * static_cast<double>(count))); }
};

struct Method {
  std::string name;
  std::string threshold = name;
  std::string parameters{};  ///< of the threshold
  bool cold = false;         ///< every iteration starts without history
};

/// Returns the share of the k largest of n `sums` that `selected` has.
double overlap(const SparseVector<float>& selected, const float* sums, std::int64_t n, std::int64_t k) {
  const KthKey<float> kth = kernels::host::kth_key(sums, n, k);
  std::int64_t greater = 0, equal = 0;
  for (std::int64_t i = 0; i < selected.count; ++i) {
    greater += key_of(selected.values[i]) > kth.key;
    equal += key_of(selected.values[i]) == kth.key;
  }
  return static_cast<double>(greater + std::min(equal, k - kth.greater)) /
         static_cast<double>(std::min(k, kth.greater + kth.equal));
}

/// Adds the figures of a selection. `sums`: all entries that it was made from.
void add_selection(Samples& samples, const Options& options, const SparseVector<float>& selection, const float* sums) {
  const auto k = static_cast<double>(options.k());
  add(samples, "selected", selection.count);
  add(samples, "error", std::abs(static_cast<double>(selection.count) - k) / k);
  add(samples, "overlap", overlap(selection, sums, options.count, options.k()));
}

JsonValue row_of(const Options& options, const Method& method, const char* baseline, const Samples& samples) {
  const double ms = median(samples.at("ms")), base_ms = median(samples.at("base_ms"));
  const bool on_host = options.memory == MemorySpace::host;
  return result_row({{"benchmark", "select"},
                     {"algorithm", method.name},
                     {"memory", on_host ? "host" : "cuda"},
                     {"count", options.count},
                     {"density", options.density},
                     {"median_ms", ms},
                     {"min_ms", minimum(samples.at("ms"))},
                     {"baseline", baseline},
                     {"baseline_ms", base_ms},
                     {"ratio", ms / base_ms},
                     {"selected_local_min", static_cast<std::int64_t>(minimum(samples.at("selected")))},
                     {"selected_local_max", static_cast<std::int64_t>(maximum(samples.at("selected")))},
                     {"select_ms", ms},
                     {"allocations_per_iteration", mean(samples.at("allocations"))},
                     {"count_error_mean", mean(samples.at("error"))},
                     {"count_error_max", maximum(samples.at("error"))},
                     {"overlap", mean(samples.at("overlap"))},
                     {"kernels", on_host ? instructions_in_use() : "cuda"}});
}

JsonValue measure_on_host(const Options& options, const Gradients& gradients, const Method& method) {
  const std::int64_t n = options.count, k = options.k();
  HostArrays<float> memory({}, nullptr, n, 0);
  const SelectionSetup setup{n, k, make_threshold(method.threshold, method.parameters)};
  Contribution<HostArrays<float>> selector({.selection = setup, .feedback = {}, .keeps_residual = false, .wire = {}}, memory);
  FramePool frames;
  const FramePool::Scope scope(frames);
  Buffer<float> residual(n), other_residual(n), sums(n);  // as in a plan
  kernels::host::fill_zero(residual.data(), n);
  kernels::host::fill_zero(other_residual.data(), n);
  Samples samples;
  for (int t = 0; t < options.iterations + warmup; ++t) {
    if (method.cold) {
      selector.reset();
      kernels::host::fill_zero(residual.data(), n);
    }
    const float* g = gradients[static_cast<std::size_t>(t) % gradients.size()].data();
    // The baseline uses another gradient and another array, which are as cold in the caches. Checks use a copy, because a
    // third-level cache may hold all of an array that was just read.
    const float* other = gradients[static_cast<std::size_t>(t + 2) % gradients.size()].data();
    const std::int64_t allocations_before = allocations_so_far();
    const double ms = milliseconds_of([&] { static_cast<void>(run_here(selector.select_from(g, residual.data(), k, true))); });
    const std::int64_t made = allocations_so_far() - allocations_before;
    const double base_ms = milliseconds_of([&] { kernels::host::add(other, other_residual.data(), n); });
    const SparseVector<float> selection = selector.selection();
    std::copy_n(residual.data(), n, sums.data());
    kernels::host::scatter(sums.data(), selection.indices, selection.values, selection.count);
    selector.settle_in(residual.data(), selection);  // as if everything had been delivered
    if (t < warmup) continue;
    add(samples, "ms", ms);
    add(samples, "base_ms", base_ms);
    add(samples, "allocations", made);
    add_selection(samples, options, selection, sums.data());
  }
  return row_of(options, method, "r[i] += g[i]", samples);
}

/// Measures exact selection again, against std::nth_element on a copy of the magnitudes, which only finds the threshold.
JsonValue against_nth_element(const Options& options, const Gradients& gradients, const JsonValue& exact) {
  std::vector<float> magnitudes(static_cast<std::size_t>(options.count));
  std::vector<double> times;
  for (int t = 0; t < std::min(options.iterations, 5); ++t) {
    const auto& g = gradients[static_cast<std::size_t>(t) % gradients.size()];
    times.push_back(milliseconds_of([&] {
      std::transform(g.begin(), g.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
      std::nth_element(magnitudes.begin(), magnitudes.begin() + (options.k() - 1), magnitudes.end(), std::greater<>());
    }));
  }
  JsonValue row = exact;
  row.set("baseline", "nth_element");
  row.set("baseline_ms", median(times));
  row.set("ratio", number_of(row, "median_ms") / median(times));
  return row;
}

/// Measures one method by the stages of a plan. Compares with a copy of the 12 bytes per element that a pass must move.
JsonValue measure_on_gpu(const Options& options, const Gradients& gradients, const Method& method) {
  InprocJob job(1, 0);
  const Communicator comm(detail::make_communicator(job.transport(0)));
  const cuda::OnDevice on(gpu_to_use(comm));
  AllreducePlan plan(comm, {.count = options.count,
                            .memory = MemorySpace::cuda,
                            .k = options.k(),
                            .algorithm = "topk_allgather",
                            .threshold = method.threshold,
                            .threshold_parameters = method.parameters});
  const cuda::Stream stream;
  const std::int64_t n = options.count;
  const cuda::DeviceArray<float> gradient(n), other(n);
  Buffer<float> sums(n), values(n);
  Buffer<std::uint32_t> indices(n);
  Samples samples;
  for (int t = 0; t < options.iterations + warmup; ++t) {
    if (method.cold) plan.reset();
    const std::vector<float>& g = gradients[static_cast<std::size_t>(t) % gradients.size()];
    cuda::copy(sums.data(), plan.residual<float>().data(), n * 4, stream.get());
    cuda::copy(gradient.data(), g.data(), n * 4, stream.get());
    cuda::synchronize(stream.get());
    kernels::host::add(g.data(), sums.data(), n);
    const std::int64_t allocations_before = allocations_so_far();
    plan.run_sparse(gradient.data(), stream.get());
    const std::int64_t made = allocations_so_far() - allocations_before;
    const SparseView<float> update = plan.sparse_result<float>();
    const auto count = static_cast<std::int64_t>(update.values.size());
    cuda::copy(indices.data(), update.indices.data(), count * 4, stream.get());
    cuda::copy(values.data(), update.values.data(), count * 4, stream.get());
    cuda::synchronize(stream.get());
    const double base_ms = milliseconds_of([&] {
      cuda::copy(other.data(), gradient.data(), gradient.bytes(), stream.get());
      cuda::copy(other.data(), gradient.data(), gradient.bytes() / 2, stream.get());
      cuda::synchronize(stream.get());
    });
    if (t < warmup) continue;
    add(samples, "ms", plan.statistics().seconds_select * 1e3);
    add(samples, "base_ms", base_ms);
    add(samples, "allocations", made);
    add_selection(samples, options, {indices.data(), values.data(), count}, sums.data());
  }
  return row_of(options, method, "copy", samples);
}

/// Returns all thresholds; for `exact`, also the first iteration alone.
std::vector<Method> all_methods() {
  std::vector<Method> methods;
  for (const ThresholdRow* row : threshold_registry()) {
    methods.push_back({.name = std::string(row->name)});
    // Reuse the threshold whenever that is possible.
    if (row->name == "reuse") methods.back().parameters = "period=1000000";
    if (row->name == "exact") methods.push_back({.name = "exact_cold", .threshold = "exact", .cold = true});
  }
  return methods;
}

void run(Options options) {
  require(options.parameters.empty() || options.threshold != "all",
          "threshold_parameters is '{}': say with --threshold whose they are", options.parameters);
  require_writable(options.json);
  Gradients gradients =
      options.input.empty() ? make_gradients(options.count, 0, 3) : read_gradients(options.input, options.count, 0, 1);
  Rows rows;
  const bool on_host = options.memory == MemorySpace::host;
  for (Method method : all_methods()) {
    if (options.threshold != "all" && options.threshold != method.name) continue;
    if (!options.parameters.empty()) method.parameters = options.parameters;
    rows.push_back(on_host ? measure_on_host(options, gradients, method) : measure_on_gpu(options, gradients, method));
    if (on_host && method.name == "exact") rows.push_back(against_nth_element(options, gradients, rows.back()));
  }
  // The kernel's variants. The rows above use the one that was faster in this process.
  for (const bool ahead : {true, false}) {
    if (!on_host || options.threshold != "all") break;
    kernels::host::set_read_ahead(ahead);
    Method method{.name = ahead ? "exact_ahead" : "exact_not_ahead", .threshold = "exact"};
    rows.push_back(measure_on_host(options, gradients, method));
  }
  print_table(rows,
              "{algorithm:<12} {kernels:<10} {count:>12} {density:>8.4g} {median_ms:>10.3f} {min_ms:>10.3f}  {baseline:<12} "
              "{baseline_ms:>11.3f} {ratio:>7.3f} {selected_local_min..selected_local_max:>21} {count_error_mean:>12.4f} "
              "{count_error_max:>11.4f} {overlap:>8.4f} {allocations_per_iteration:>7.3g}",
              {"algorithm", "kernels", "count", "density", "median ms", "min ms", "baseline", "baseline ms", "ratio", "selected",
               "count error", "largest", "overlap", "allocs"});
  write_rows(rows, options.json);
}

}  // namespace

void add_bench_select(Command& bench) {
  auto [command, options] = bench.add(
      "select",
      "Measure compensation and local selection on one thread or a GPU, compared with one pass r[i] += g[i] and nth_element", run);
  command.footer(
      "reuse takes the threshold of an earlier iteration (Ok-Topk). "
      "exact selects the k largest entries; exact_cold does so without history, as in the first iteration. "
      "With all, exact_ahead and exact_not_ahead are exact with and without fetching memory ahead (WEIR_READ_AHEAD). "
      "mstopk bisects between mean and maximum (CommLib), as does redsync (RedSync). "
      "sampled takes the threshold of 1 % of the entries (DGC). "
      "gaussian takes a quantile of the normal distribution (Gaussiank). "
      "sidco fits exponential distributions in stages (SIDCo). "
      "sampled, gaussian, sidco and redsync select exactly if they would miss [3/4 k, 5/4 k]. "
      "The count error is |count - k| / k. "
      "overlap is the share of the k largest entries that were selected. "
      "kernels is the instruction set in use. "
      "ratio is median ms / baseline ms. "
      "allocs is the number of calls of operator new in an iteration. "
      "With --memory cuda, the time is that of a plan's selection until the host has the result. "
      "The baseline then copies the 12 bytes of an element that compensation must move.");
  command.option("--count", options.count, "elements of the gradient").between(std::int64_t{1}, std::int64_t{1} << 40);
  command.option("--density", options.density, "share of entries to select").between(1e-9, 1.0);
  std::vector<std::string> names{"all"};
  for (const Method& method : all_methods()) names.push_back(method.name);
  command.option("--threshold", options.threshold, "selection method to measure").one_of(names);
  add_named(command, "--memory", options.memory,
            "where gradient and residual are; cuda measures a plan of one rank on the nearest GPU");
  command.option("--threshold-parameters", options.parameters, help_of_threshold_parameters());
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--input", options.input, "recorded gradients, raw float32 or .npy, iterations x 1 x count").existing_file();
  command.option("--json", options.json, "also write the rows to this file");
  command.examples({"weir bench select", "weir bench select --threshold reuse --density 0.001"});
}

}  // namespace weir::cli
