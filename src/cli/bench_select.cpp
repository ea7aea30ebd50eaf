// weir bench select: local compensation and selection, one thread, against one plain pass over the same arrays, and how well each
// method hits k and the exact selection.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "base/buffer.hpp"
#include "cli/bench_input.hpp"
#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "kernels/kernels.hpp"
#include "plan/local_selector.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 16777216;
  double density = 0.01;
  int iterations = 20;
  int samplings = 30;
  std::string algorithm = "all", input, json;
};

template <class Body>
double milliseconds(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct Method {
  const char* name;
  Threshold threshold;
  bool cold = false;  ///< every iteration is a first one
};
constexpr std::array methods = {
    Method{"reuse", Threshold::reuse},   Method{"exact", Threshold::exact},     Method{"exact_cold", Threshold::exact, true},
    Method{"mstopk", Threshold::mstopk}, Method{"sampled", Threshold::sampled}, Method{"gaussian", Threshold::gaussian},
    Method{"sidco", Threshold::sidco}};

std::int64_t target(const Options& options) {
  return std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(options.count)));
}

/// Share of the k largest of `sums` that `selected` holds.
double overlap(const SparseVector<float>& selected, const Buffer<float>& sums, std::int64_t k) {
  const KthKey<float> kth = kernels::host::kth_key(sums.data(), sums.size(), k);
  std::int64_t greater = 0, equal = 0;
  for (std::int64_t i = 0; i < selected.count; ++i) {
    greater += key_of(selected.values[i]) > kth.key;
    equal += key_of(selected.values[i]) == kth.key;
  }
  return static_cast<double>(greater + std::min(equal, k - kth.greater)) /
         static_cast<double>(std::min(k, kth.greater + kth.equal));
}

Row measure(const Options& options, const Gradients& gradients, const Method& method) {
  const std::int64_t n = options.count, k = target(options);
  LocalSelector<float> selector({n, k, method.threshold, 1 << 30, options.samplings});
  Buffer<float> residual(n), saved(n);  // as a plan holds it
  kernels::host::fill_zero(residual.data(), n);
  std::vector<double> times, baseline, errors, overlaps;
  Row row{.benchmark = "select",
          .algorithm = method.name,
          .count = n,
          .density = options.density,
          .baseline = "r[i] += g[i]",
          .selected_local_min = n};
  const int warm = 3;
  std::int64_t allocations = 0;
  for (int t = 0; t < options.iterations + warm; ++t) {
    if (method.cold) {
      selector.reset();
      kernels::host::fill_zero(residual.data(), n);
    }
    const float* g = gradients[static_cast<std::size_t>(t) % gradients.size()].data();
    // The baseline reads another gradient, as cold in the caches as this one.
    const float* other = gradients[static_cast<std::size_t>(t + 2) % gradients.size()].data();
    const std::int64_t allocations_before = allocations_so_far();
    const double ms = milliseconds([&] { selector.select(g, residual.data(), k, true); });
    const std::int64_t made = allocations_so_far() - allocations_before;
    const SparseVector<float> selection = selector.selection();
    std::copy_n(residual.data(), n, saved.data());
    kernels::host::scatter(saved.data(), selection.indices, selection.values, selection.count);
    const double found = overlap(selection, saved, k);
    selector.settle(residual.data(), selection);  // as if all of it had been delivered
    std::copy_n(residual.data(), n, saved.data());
    const double base_ms = milliseconds([&] { kernels::host::add(other, residual.data(), n); });
    std::copy_n(saved.data(), n, residual.data());
    if (t < warm) continue;
    times.push_back(ms);
    baseline.push_back(base_ms);
    allocations += made;
    errors.push_back(std::abs(static_cast<double>(selection.count - k)) / static_cast<double>(k));
    overlaps.push_back(found);
    row.selected_local_min = std::min(row.selected_local_min, selection.count);
    row.selected_local_max = std::max(row.selected_local_max, selection.count);
  }
  row.median_ms = row.select_ms = median(times);
  row.min_ms = minimum(times);
  row.baseline_ms = median(baseline);
  row.ratio = row.median_ms / row.baseline_ms;
  row.count_error_mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  row.count_error_max = *std::max_element(errors.begin(), errors.end());
  row.overlap = std::accumulate(overlaps.begin(), overlaps.end(), 0.0) / static_cast<double>(overlaps.size());
  row.allocations = static_cast<double>(allocations) / options.iterations;
  return row;
}

/// Exact selection again, against std::nth_element on a copy of the magnitudes (which finds the threshold only).
Row against_nth_element(const Options& options, const Gradients& gradients, const Row& exact) {
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

void run(Options options) {
  Gradients gradients =
      options.input.empty() ? make_gradients(options.count, 0, 4) : read_gradients(options.input, options.count, 0, 1);
  std::vector<Row> rows;
  for (const Method& method : methods) {
    if (options.algorithm != "all" && options.algorithm != method.name) continue;
    rows.push_back(measure(options, gradients, method));
    if (method.threshold == Threshold::exact && !method.cold) rows.push_back(against_nth_element(options, gradients, rows.back()));
  }
  fmt::print("kernels: {}\n", kernels::host::instruction_set());
  print_selection_table(rows);
  if (!options.json.empty()) write_json(rows, options.json);
}

}  // namespace

void add_bench_select(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("select", "Compensation and local selection, one thread, against one r[i] += g[i] pass and nth_element");
  command->footer(
      "reuse: Ok-Topk's threshold of an earlier iteration; exact: the k largest, warm; exact_cold: the same, first iteration;\n"
      "mstopk: CommLib's bisection between mean and maximum; sampled: DGC's threshold of 1 % of the entries; gaussian: "
      "Gaussiank's\n"
      "normal quantile; sidco: SIDCo's exponential fits in stages. The last three select exactly where they would miss\n"
      "[3/4 k, 5/4 k].\n"
      "count error: |count - k| / k, mean and largest over the iterations; overlap: share of the k largest that was selected;\n"
      "ratio: median ms / baseline ms; allocs: calls of operator new per iteration.");
  command->add_option("--count", options->count, "elements of the gradient")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--density", options->density, "share of entries selected")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  std::vector<std::string> names{"all"};
  for (const Method& method : methods) names.emplace_back(method.name);
  command->add_option("--algorithm", options->algorithm, "method, or all")->check(CLI::IsMember(names))->capture_default_str();
  command->add_option("--samplings", options->samplings, "bisections of mstopk")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--iterations", options->iterations, "measured iterations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x 1 x count")
      ->check(CLI::ExistingFile);
  command->add_option("--json", options->json, "also write the rows to this file");
  command->callback([options] { run(*options); });
}

}  // namespace weir::cli
