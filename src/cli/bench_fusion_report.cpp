#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/config_check.hpp"
#include "base/json.hpp"
#include "cli/bench_fusion.hpp"

namespace weir::cli {
namespace {

// Goals for ratios of step times: `ahead` to inter; inter to inter + intra, for at least one model; the better of `none` and
// `behind` to the default scheme, for every model.
constexpr double inter_goal = 1.1, intra_goal = 1.3, better_goal = 1.2;

/// Returns the step time of the fastest measured scheme in `schemes`, or NaN if none was measured.
double fastest(const FusionResults& results, std::initializer_list<std::string_view> schemes) {
  double fastest = std::numeric_limits<double>::quiet_NaN();
  for (const FusionResult& r : results.schemes) {
    const bool meant = std::find(schemes.begin(), schemes.end(), r.scheme) != schemes.end();
    if (meant && !(r.step_ms >= fastest)) fastest = r.step_ms;
  }
  return fastest;
}

/// Speed-ups over other schemes; NaN if those were not measured.
struct Ratios {
  double none, behind_or_none, limit;
};

Ratios ratios_of(const FusionResults& results, const FusionResult& r) {
  return {fastest(results, {"none"}) / r.step_ms, fastest(results, {"none", "behind"}) / r.step_ms, r.step_ms / r.limit_ms};
}

std::string text_of(double ratio) { return std::isnan(ratio) ? "" : fmt::format("{:.3f}", ratio); }

void print_goals(const FusionResults& results) {
  const double inter = fastest(results, {"ahead_inter"}), intra = fastest(results, {"ahead_inter_intra"});
  const std::string_view usual = name_of(FusionConfig{}.scheme);
  const auto print = [](std::string_view what, double ratio, const std::string& goal) {
    if (!std::isnan(ratio)) fmt::print("{}: {:.3f} times as fast (Weir's goal: {})\n", what, ratio, goal);
  };
  print("ahead_inter to ahead", fastest(results, {"ahead"}) / inter, fmt::format("{}", inter_goal));
  print("ahead_inter_intra to ahead_inter", inter / intra, fmt::format("{} for some model", intra_goal));
  print(fmt::format("{} to the better of none and behind", usual), fastest(results, {"none", "behind"}) / fastest(results, {usual}),
        fmt::format("{}", better_goal));
  print(fmt::format("{} to none", usual), fastest(results, {"none"}) / fastest(results, {usual}), "at least 1");
}

JsonValue row_of(const FusionResults& results, const FusionResult& r, const FusionOptions& options, int ranks) {
  const Ratios ratios = ratios_of(results, r);
  JsonValue row = {{"benchmark", "fusion"},
                   {"model", results.model.name},
                   {"scheme", r.scheme},
                   {"algorithm", r.algorithm},
                   {"threshold", options.config.threshold},
                   {"ranks", ranks},
                   {"elements", results.model.elements()},
                   {"tensors", results.model.tensors.size()},
                   {"shrink", options.shrink},
                   {"density", options.config.density},
                   {"buffer_mib", options.buffer_mib},
                   {"batch", results.batch},
                   {"gflops", options.gflops},
                   {"compute_ms", results.compute_ms},
                   {"card_mb_per_s", results.card_mb_per_s},
                   {"median_ms", r.step_ms},
                   {"min_ms", r.step_min_ms},
                   {"exposed_ms", r.exposed_ms},
                   {"select_ms", r.select_ms},
                   {"waited_ms", r.waited_ms},
                   {"startups", r.startups},
                   {"sent_mb", r.sent_mb},
                   {"received_mb", r.received_mb},
                   {"control_mb", r.control_mb},
                   {"tensors_missing", r.missing},
                   {"regroupings", r.regroupings},
                   {"memory_bytes", r.memory_bytes},
                   {"limit_ms", r.limit_ms},
                   {"limit_ratio", ratios.limit}};
  if (!std::isnan(ratios.none)) row.set("none_ratio", ratios.none);
  if (!std::isnan(ratios.behind_or_none)) row.set("best_of_none_and_behind_ratio", ratios.behind_or_none);
  return row;
}

}  // namespace

void print_fusion(const FusionResults& results, const FusionOptions& options, int ranks) {
  const FusionModel& model = results.model;
  fmt::print("{}: {} tensors, {} elements", model.name, model.tensors.size(), model.elements());
  if (options.shrink > 1) fmt::print(" (shrunk by {})", options.shrink);
  fmt::print(", {} ranks; {:.3f} ms of computing: {} x {} at {} GFLOP/s", ranks, results.compute_ms, results.batch, model.sample,
             options.gflops);
  if (ranks > 1) fmt::print("; card: {:.1f} MB/s", results.card_mb_per_s);
  fmt::print("\n");
  fmt::print("{:<18} {:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "scheme",
             "algorithm", "step ms", "min ms", "NOCT ms", "select ms", "waited ms", "startups", "MB sent", "received", "missing",
             "x none", "x better", "/ limit");
  for (const FusionResult& r : results.schemes) {
    const Ratios ratios = ratios_of(results, r);
    fmt::print(
        "{:<18} {:<18} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>8.5g} {:>10.3f} {:>10.3f} {:>8.5g} {:>8} {:>10} "
        "{:>8.3f}\n",
        r.scheme, r.algorithm, r.step_ms, r.step_min_ms, r.exposed_ms, r.select_ms, r.waited_ms, r.startups, r.sent_mb,
        r.received_mb, r.missing, text_of(ratios.none), text_of(ratios.behind_or_none), ratios.limit);
  }
  print_goals(results);
  fmt::print(
      "step: backward and forward pass. NOCT: the part of it that is not computing. select, waited: the host's time in ready(),\n"
      "and in wait() and wait_all(). Times are medians of the slowest rank. startups: buffers exchanged. missing: tensors of\n"
      "which no entry was delivered. x none, x better: times as fast as none, and as the better of none and behind. / limit:\n"
      "step relative to the longer of computing and sending these bytes through the card.\n\n");
}

void write_fusion(const std::vector<FusionResults>& models, const FusionOptions& options, int ranks) {
  JsonValue rows = JsonValue::array();
  for (const FusionResults& results : models) {
    for (const FusionResult& r : results.schemes) rows.push_back(row_of(results, r, options, ranks));
  }
  write_json(rows, options.json);
}

}  // namespace weir::cli
