// weir bench select: measures local compensation and selection in one thread against one plain pass over the same arrays, and how
// close each method comes to k and to the exact selection.
#include "cli/bench_select.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/named_option.hpp"
#include "cli/named_threshold.hpp"
#include "contribution/contribution.hpp"
#include "kernels/kernels.hpp"
#include "kernels/read_ahead.hpp"

namespace weir::cli {
namespace {

std::string instruction_set_in_use() {
  const std::string names = kernels::host::instruction_set();
  return names.substr(0, names.find(' '));
}

template <class Body>
double milliseconds(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

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

Row measure_on_host(const SelectOptions& options, const Gradients& gradients, const SelectMethod& method) {
  const std::int64_t n = options.count, k = target(options);
  HostArrays<float> memory({}, nullptr, n, 0);
  const SelectionSetup setup{n, k, make_threshold(method.threshold, method.parameters)};
  Contribution<HostArrays<float>> selector({.selection = setup, .feedback = {}, .keeps_residual = false, .wire = {}}, memory);
  FramePool frames;
  const FramePool::Scope scope(frames);
  Buffer<float> residual(n), other_residual(n), sums(n);  // as in a plan
  kernels::host::fill_zero(residual.data(), n);
  kernels::host::fill_zero(other_residual.data(), n);
  SelectMeasurement measurement(options, method, "r[i] += g[i]");
  for (int t = 0; t < options.iterations + select_warmup; ++t) {
    if (method.cold) {
      selector.reset();
      kernels::host::fill_zero(residual.data(), n);
    }
    const float* g = gradients[static_cast<std::size_t>(t) % gradients.size()].data();
    // The baseline uses another gradient and another array, which are as cold in the caches. Checks use a copy, because a
    // third-level cache may hold all of an array that was just read.
    const float* other = gradients[static_cast<std::size_t>(t + 2) % gradients.size()].data();
    const std::int64_t allocations_before = allocations_so_far();
    const double ms = milliseconds([&] { static_cast<void>(run_here(selector.select_from(g, residual.data(), k, true))); });
    const std::int64_t made = allocations_so_far() - allocations_before;
    const double base_ms = milliseconds([&] { kernels::host::add(other, other_residual.data(), n); });
    const SparseVector<float> selection = selector.selection();
    std::copy_n(residual.data(), n, sums.data());
    kernels::host::scatter(sums.data(), selection.indices, selection.values, selection.count);
    selector.settle_in(residual.data(), selection);  // as if everything had been delivered
    if (t >= select_warmup) measurement.add(ms, base_ms, made, selection, sums.data());
  }
  return measurement.row();
}

/// Measures exact selection again, against std::nth_element on a copy of the magnitudes, which only finds the threshold.
Row against_nth_element(const SelectOptions& options, const Gradients& gradients, const Row& exact) {
  const std::int64_t n = options.count, k = target(options);
  std::vector<float> magnitudes(static_cast<std::size_t>(n));
  std::vector<double> times;
  for (int t = 0; t < std::min(options.iterations, 5); ++t) {
    const auto& g = gradients[static_cast<std::size_t>(t) % gradients.size()];
    times.push_back(milliseconds([&] {
      std::transform(g.begin(), g.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
      std::nth_element(magnitudes.begin(), magnitudes.begin() + (k - 1), magnitudes.end(), std::greater<>());
    }));
  }
  Row row = exact;
  row.baseline = "nth_element";
  row.baseline_ms = median(times);
  row.ratio = row.median_ms / row.baseline_ms;
  return row;
}

/// Returns all thresholds; for `exact`, also the first iteration alone.
std::vector<SelectMethod> all_methods() {
  std::vector<SelectMethod> methods;
  for (const ThresholdRow* row : threshold_registry()) {
    methods.push_back({.name = std::string(row->name)});
    // Reuse the threshold whenever that is possible.
    if (row->name == "reuse") methods.back().parameters = "period=1000000";
    if (row->name == "exact") methods.push_back({.name = "exact_cold", .threshold = "exact", .cold = true});
  }
  return methods;
}

void run(SelectOptions options) {
  require(options.parameters.empty() || options.threshold != "all",
          "threshold_parameters is '{}': say with --threshold whose they are", options.parameters);
  require_writable(options.json);
  Gradients gradients =
      options.input.empty() ? make_gradients(options.count, 0, 3) : read_gradients(options.input, options.count, 0, 1);
  std::vector<Row> rows;
  const bool on_host = options.memory == MemorySpace::host;
  for (SelectMethod method : all_methods()) {
    if (options.threshold != "all" && options.threshold != method.name) continue;
    if (!options.parameters.empty()) method.parameters = options.parameters;
    rows.push_back(on_host ? measure_on_host(options, gradients, method) : measure_on_gpu(options, gradients, method));
    if (on_host && method.name == "exact") rows.push_back(against_nth_element(options, gradients, rows.back()));
  }
  // The kernel's variants. The rows above use the one that was faster in this process.
  for (const bool ahead : {true, false}) {
    if (!on_host || options.threshold != "all") break;
    kernels::host::set_read_ahead(ahead);
    SelectMethod method{.name = ahead ? "exact_ahead" : "exact_not_ahead", .threshold = "exact"};
    rows.push_back(measure_on_host(options, gradients, method));
  }
  print_selection_table(rows);
  if (!options.json.empty()) write_json(rows, options.json);
}

}  // namespace

std::int64_t target(const SelectOptions& options) {
  return std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(options.count)));
}

SelectMeasurement::SelectMeasurement(const SelectOptions& options, const SelectMethod& method, const char* baseline)
    : k_(target(options)),
      row_{.benchmark = "select",
           .algorithm = method.name,
           .memory = options.memory == MemorySpace::host ? "host" : "cuda",
           .count = options.count,
           .density = options.density,
           .baseline = baseline,
           .selected_local_min = options.count,
           .kernels = options.memory == MemorySpace::host ? instruction_set_in_use() : "cuda"} {}

void SelectMeasurement::add(double ms, double base_ms, std::int64_t allocations, const SparseVector<float>& selection,
                            const float* sums) {
  times_.push_back(ms);
  baseline_.push_back(base_ms);
  allocations_ += allocations;
  errors_.push_back(std::abs(static_cast<double>(selection.count - k_)) / static_cast<double>(k_));
  overlaps_.push_back(overlap(selection, sums, row_.count, k_));
  row_.selected_local_min = std::min(row_.selected_local_min, selection.count);
  row_.selected_local_max = std::max(row_.selected_local_max, selection.count);
}

Row SelectMeasurement::row() const {
  Row row = row_;
  const auto iterations = static_cast<double>(times_.size());
  row.median_ms = row.select_ms = median(times_);
  row.min_ms = minimum(times_);
  row.baseline_ms = median(baseline_);
  row.ratio = row.median_ms / row.baseline_ms;
  row.count_error_mean = std::accumulate(errors_.begin(), errors_.end(), 0.0) / iterations;
  row.count_error_max = *std::max_element(errors_.begin(), errors_.end());
  row.overlap = std::accumulate(overlaps_.begin(), overlaps_.end(), 0.0) / iterations;
  row.allocations = static_cast<double>(allocations_) / iterations;
  return row;
}

void add_bench_select(Command& bench) {
  auto options = std::make_shared<SelectOptions>();
  Command command = bench.add(
      "select",
      "Measure compensation and local selection on one thread or a GPU, compared with one pass r[i] += g[i] and nth_element");
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
  command.option("--count", options->count, "elements of the gradient").between(std::int64_t{1}, std::int64_t{1} << 40);
  command.option("--density", options->density, "share of entries to select").between(1e-9, 1.0);
  std::vector<std::string> names{"all"};
  for (const SelectMethod& method : all_methods()) names.push_back(method.name);
  command.option("--threshold", options->threshold, "selection method to measure").one_of(names);
  add_named(command, "--memory", options->memory,
            "where gradient and residual are; cuda measures a plan of one rank on the nearest GPU");
  command.option("--threshold-parameters", options->parameters, help_of_threshold_parameters());
  command.option("--iterations", options->iterations, "measured iterations").positive();
  command.option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x 1 x count").existing_file();
  command.option("--json", options->json, "also write the rows to this file");
  command.examples({"weir bench select", "weir bench select --threshold reuse --density 0.001"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
