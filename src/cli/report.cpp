#include "cli/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/json.hpp"

namespace weir::cli {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double minimum(const std::vector<double>& values) { return values.empty() ? 0 : *std::min_element(values.begin(), values.end()); }

namespace {

template <class Word>
std::string join(std::span<const Word> words, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += between;
    text += words[i];
  }
  return text;
}

std::string name_of(const Row& r) {
  const std::string name = r.ran_as == r.algorithm ? r.algorithm : fmt::format("{} ({})", r.algorithm, r.ran_as);
  const bool usual = r.compressor.empty() && (r.ran_compressor == "top_k" || r.ran_compressor == "none");
  return usual ? name : name + " " + r.ran_compressor;
}

/// Returns the width of a column that fits the texts of all rows, at least `least`.
template <class Text>
std::size_t width_of(const std::vector<Row>& rows, std::size_t least, Text text) {
  for (const Row& r : rows) least = std::max(least, text(r).size());
  return least;
}

}  // namespace

std::string joined(std::span<const std::string> words, std::string_view between) { return join(words, between); }
std::string joined(std::span<const std::string_view> words, std::string_view between) { return join(words, between); }

void print_table(const std::vector<Row>& rows) {
  const std::size_t names = width_of(rows, 24, name_of);
  const std::size_t baselines = width_of(rows, 14, [](const Row& r) { return r.baseline; });
  fmt::print(
      "{:<18} {:<{}} {:<6} {:>12} {:>8} {:>5} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}  {:<{}} {:>11} {:>7} {:>12} {:>12} {:>21} "
      "{:>21} "
      "{:>7}\n",
      "benchmark", "algorithm", names, "memory", "count", "density", "ranks", "median ms", "min ms", "select", "in node",
      "exchange", "apply", "baseline", baselines, "baseline ms", "ratio", "bytes sent", "across nodes", "selected local",
      "selected global", "allocs");
  for (const Row& r : rows) {
    fmt::print(
        "{:<18} {:<{}} {:<6} {:>12} {:>8.4g} {:>5} {:>10.3f} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}  {:<{}} {:>11.3f} "
        "{:>7.3f} "
        "{:>12} {:>12} "
        "{:>21} {:>21} {:>7.3g}\n",
        r.benchmark, name_of(r), names, r.memory, r.count, r.density, r.ranks, r.median_ms, r.min_ms, r.select_ms, r.in_node_ms,
        r.exchange_ms, r.apply_ms, r.baseline, baselines, r.baseline_ms, r.ratio, r.bytes_sent_max, r.bytes_across,
        fmt::format("{}..{}", r.selected_local_min, r.selected_local_max),
        fmt::format("{}..{}", r.selected_global_min, r.selected_global_max), r.allocations);
  }
  fmt::print(
      "\nselect, in node, exchange, apply: ms of a run's stages on rank 0. in node: sums and gathers within nodes, of algorithms\n"
      "that shard. bytes sent: in Weir's messages, the most of any rank in an iteration. across nodes: the part of them that\n"
      "leaves the node, mean of the iterations.\n"
      "What goes through memory that a node shares, or by the allreduce of MPI or NCCL, is not among them.\n");
}

void print_selection_table(const std::vector<Row>& rows) {
  fmt::print("{:<12} {:<10} {:>12} {:>8} {:>10} {:>10}  {:<12} {:>11} {:>7} {:>21} {:>12} {:>11} {:>8} {:>7}\n", "algorithm",
             "kernels", "count", "density", "median ms", "min ms", "baseline", "baseline ms", "ratio", "selected", "count error",
             "largest", "overlap", "allocs");
  for (const Row& r : rows) {
    fmt::print(
        "{:<12} {:<10} {:>12} {:>8.4g} {:>10.3f} {:>10.3f}  {:<12} {:>11.3f} {:>7.3f} {:>21} {:>12.4f} {:>11.4f} {:>8.4f} "
        "{:>7.3g}\n",
        r.algorithm, r.kernels, r.count, r.density, r.median_ms, r.min_ms, r.baseline, r.baseline_ms, r.ratio,
        fmt::format("{}..{}", r.selected_local_min, r.selected_local_max), r.count_error_mean, r.count_error_max, r.overlap,
        r.allocations);
  }
}

void require_writable(const std::string& file) {
  if (file.empty()) return;
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(file, ignored);
  const bool opens = std::ofstream(file, std::ios::app).is_open();
  if (opens && is_new) std::filesystem::remove(file, ignored);
  if (!opens)
    throw std::runtime_error(fmt::format("'{}' cannot be written: name a file in a folder that exists and is yours", file));
}

void write_json(const std::vector<Row>& rows, const std::string& file) {
  JsonValue list = JsonValue::array();
  for (const Row& r : rows) {
    list.push_back({{"benchmark", r.benchmark},
                    {"algorithm", r.algorithm},
                    {"algorithm_parameters", r.algorithm_parameters},
                    {"compressor", r.compressor},
                    {"compressor_parameters", r.compressor_parameters},
                    {"memory", r.memory},
                    {"count", r.count},
                    {"density", r.density},
                    {"ranks", r.ranks},
                    {"median_ms", r.median_ms},
                    {"min_ms", r.min_ms},
                    {"baseline", r.baseline},
                    {"baseline_ms", r.baseline_ms},
                    {"ratio", r.ratio},
                    {"ran_as", r.ran_as},
                    {"ran_compressor", r.ran_compressor},
                    {"bytes_sent_max", r.bytes_sent_max},
                    {"bytes_in_node", r.bytes_in_node},
                    {"bytes_across", r.bytes_across},
                    {"bytes_in_switch", r.bytes_in_switch},
                    {"bytes_across_switches", r.bytes_across_switches},
                    {"selected_local_min", r.selected_local_min},
                    {"selected_local_max", r.selected_local_max},
                    {"selected_global_min", r.selected_global_min},
                    {"selected_global_max", r.selected_global_max},
                    {"select_ms", r.select_ms},
                    {"in_node_ms", r.in_node_ms},
                    {"exchange_ms", r.exchange_ms},
                    {"apply_ms", r.apply_ms},
                    {"allocations_per_iteration", r.allocations},
                    {"count_error_mean", r.count_error_mean},
                    {"count_error_max", r.count_error_max},
                    {"overlap", r.overlap},
                    {"kernels", r.kernels}});
  }
  write_json(list, file);
}

}  // namespace weir::cli
