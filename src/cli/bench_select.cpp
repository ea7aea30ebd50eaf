// weir bench select: local compensation and selection, one thread, against one plain pass over the same arrays.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>

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
  std::string algorithm = "all", input, json;
};

template <class Body>
double milliseconds(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

Row measure(const Options& options, const Gradients& gradients, const std::string& name, Threshold mode, bool cold) {
  const std::int64_t n = options.count;
  const std::int64_t k = std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(n)));
  LocalSelector<float> selector({n, k, mode, 1 << 30});
  Buffer<float> residual(n), saved(n);  // as a plan holds it
  kernels::host::fill_zero(residual.data(), n);
  std::vector<double> times, baseline;
  Row row{.benchmark = "select",
          .algorithm = name,
          .count = n,
          .density = options.density,
          .baseline = "r[i] += g[i]",
          .selected_local_min = n};
  const int warm = 3;
  std::int64_t allocations = 0;
  for (int t = 0; t < options.iterations + warm; ++t) {
    if (cold) {
      selector.reset();
      kernels::host::fill_zero(residual.data(), n);
    }
    const float* g = gradients[static_cast<std::size_t>(t) % gradients.size()].data();
    // The baseline reads another gradient, as cold in the caches as this one.
    const float* other = gradients[static_cast<std::size_t>(t + 2) % gradients.size()].data();
    const std::int64_t allocations_before = allocations_so_far();
    const double ms = milliseconds([&] { selector.select(g, residual.data(), k, true); });
    const std::int64_t made = allocations_so_far() - allocations_before;
    selector.settle(residual.data(), selector.selection());  // as if all of it had been delivered
    std::copy_n(residual.data(), n, saved.data());
    const double base_ms = milliseconds([&] { kernels::host::add(other, residual.data(), n); });
    std::copy_n(saved.data(), n, residual.data());
    if (t < warm) continue;
    times.push_back(ms);
    baseline.push_back(base_ms);
    allocations += made;
    row.selected_local_min = std::min(row.selected_local_min, selector.selection().count);
    row.selected_local_max = std::max(row.selected_local_max, selector.selection().count);
  }
  row.median_ms = row.select_ms = median(times);
  row.min_ms = minimum(times);
  row.baseline_ms = median(baseline);
  row.ratio = row.median_ms / row.baseline_ms;
  row.allocations = static_cast<double>(allocations) / options.iterations;
  return row;
}

/// Exact selection again, against std::nth_element on a copy of the magnitudes (which finds the threshold only).
Row against_nth_element(const Options& options, const Gradients& gradients, const Row& exact) {
  const std::int64_t n = options.count;
  const std::int64_t k = std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(n)));
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
  const auto wanted = [&](const std::string& name) { return options.algorithm == "all" || options.algorithm == name; };
  if (wanted("reuse")) rows.push_back(measure(options, gradients, "reuse", Threshold::reuse, false));
  if (wanted("exact")) {
    rows.push_back(measure(options, gradients, "exact", Threshold::exact, false));
    rows.push_back(against_nth_element(options, gradients, rows.back()));
  }
  if (wanted("exact_cold")) rows.push_back(measure(options, gradients, "exact_cold", Threshold::exact, true));
  fmt::print("kernels: {}\n", kernels::host::instruction_set());
  print_table(rows);
  if (!options.json.empty()) write_json(rows, options.json);
}

}  // namespace

void add_bench_select(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("select", "Compensation and local selection, one thread, against one r[i] += g[i] pass and nth_element");
  command->add_option("--count", options->count, "elements of the gradient")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--density", options->density, "share of entries selected")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithm, "reuse, exact, exact_cold or all")
      ->check(CLI::IsMember({"reuse", "exact", "exact_cold", "all"}))
      ->capture_default_str();
  command->add_option("--iterations", options->iterations, "measured iterations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--input", options->input, "recorded gradients, raw float32 or .npy, iterations x 1 x count")
      ->check(CLI::ExistingFile);
  command->add_option("--json", options->json, "also write the rows to this file");
  command->callback([options] { run(*options); });
}

}  // namespace weir::cli
