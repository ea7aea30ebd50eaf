#include "cli/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace weir::cli {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double minimum(const std::vector<double>& values) { return values.empty() ? 0 : *std::min_element(values.begin(), values.end()); }

double maximum(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

namespace {

/// A column of a table: the text before it, the member or the two members that it shows, and how.
struct Column {
  Column(std::string_view text, std::string_view field) : before(text) {
    const std::size_t colon = field.find(':'), dots = field.find("..");
    first = field.substr(0, std::min(colon, dots));
    if (dots < colon) last = field.substr(dots + 2, colon - dots - 2);
    if (colon == field.npos) return;
    spec = field.substr(colon + 1);
    alignment = spec[0];
    width = std::stoul(spec.substr(1));
    grows = spec.ends_with('+');
  }
  [[nodiscard]] std::string text_of(const JsonView& row) const {
    const std::optional<JsonView> value = row.find(first.c_str());
    if (!value) return "";
    if (!last.empty()) return value->dump() + ".." + row.at(last.c_str()).dump();
    if (value->is_string()) return value->string();
    const std::size_t point = spec.find('.');
    if (point != spec.npos) return fmt::format(fmt::runtime("{:" + spec.substr(point) + "}"), value->number());
    return value->is_float() ? fmt::format("{}", value->number()) : value->dump();
  }
  [[nodiscard]] std::string padded(std::string_view text) const {
    return before + (alignment == '<' ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width));
  }

  std::string before, first, last, spec;
  char alignment = '<';
  std::size_t width = 0;
  bool grows = false;
};

}  // namespace

std::string count_text(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

JsonValue result_row(std::initializer_list<JsonValue::Member> figures) {
  JsonValue row = JsonValue::parse(R"({"benchmark": "", "algorithm": "", "algorithm_parameters": "", "compressor": "",
    "compressor_parameters": "", "memory": "host", "count": 0, "density": 0.0, "ranks": 1, "median_ms": 0.0, "min_ms": 0.0,
    "baseline": "", "baseline_ms": 0.0, "ratio": 0.0, "ran_as": "", "ran_compressor": "", "bytes_sent_max": 0, "bytes_in_node": 0,
    "bytes_across": 0, "bytes_in_switch": 0, "bytes_across_switches": 0, "selected_local_min": 0, "selected_local_max": 0,
    "selected_global_min": 0, "selected_global_max": 0, "select_ms": 0.0, "in_node_ms": 0.0, "exchange_ms": 0.0, "apply_ms": 0.0,
    "allocations_per_iteration": 0.0, "count_error_mean": 0.0, "count_error_max": 0.0, "overlap": 0.0, "kernels": ""})");
  for (const JsonValue::Member& figure : figures) row.set(figure.name, figure.value);
  return row;
}

void print_table(const Rows& rows, std::string_view line, const std::vector<std::string_view>& titles) {
  std::vector<Column> columns;
  for (std::size_t open; (open = line.find('{')) != line.npos; line.remove_prefix(line.find('}') + 1))
    columns.emplace_back(line.substr(0, open), line.substr(open + 1, line.find('}') - open - 1));
  std::string header;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const JsonValue& row : rows)
      if (columns[i].grows) columns[i].width = std::max(columns[i].width, columns[i].text_of(row.view()).size());
    header += columns[i].padded(titles[i]);
  }
  fmt::print("{}\n", header);
  for (const JsonValue& row : rows) {
    for (const Column& column : columns) fmt::print("{}", column.padded(column.text_of(row.view())));
    fmt::print("\n");
  }
}

void print_result_table(const Rows& rows) {
  Rows shown = rows;
  for (JsonValue& row : shown) {
    const auto text = [&](const char* name) { return row.view().at(name).string(); };
    const std::string algorithm = text("algorithm"), ran_as = text("ran_as"), compressor = text("ran_compressor");
    const bool usual = text("compressor").empty() && (compressor == "top_k" || compressor == "none");
    row.set("name",
            fmt::format("{}{}{}", algorithm, ran_as == algorithm ? "" : " (" + ran_as + ")", usual ? "" : " " + compressor));
  }
  print_table(shown,
              "{benchmark:<18} {name:<24+} {memory:<6} {count:>12} {density:>8.4g} {ranks:>5} {median_ms:>10.3f} {min_ms:>10.3f} "
              "{select_ms:>9.3f} {in_node_ms:>9.3f} {exchange_ms:>9.3f} {apply_ms:>9.3f}  {baseline:<14+} {baseline_ms:>11.3f} "
              "{ratio:>7.3f} {bytes_sent_max:>12} {bytes_across:>12} {selected_local_min..selected_local_max:>21} "
              "{selected_global_min..selected_global_max:>21} {allocations_per_iteration:>7.3g}",
              {"benchmark", "algorithm",  "memory",       "count",          "density",         "ranks",    "median ms",
               "min ms",    "select",     "in node",      "exchange",       "apply",           "baseline", "baseline ms",
               "ratio",     "bytes sent", "across nodes", "selected local", "selected global", "allocs"});
  fmt::print(
      "\nselect, in node, exchange, apply: ms of a run's stages on rank 0. in node: sums and gathers within nodes, of algorithms\n"
      "that shard. bytes sent: in Weir's messages, the most of any rank in an iteration. across nodes: the part of them that\n"
      "leaves the node, mean of the iterations.\n"
      "What goes through memory that a node shares, or by the allreduce of MPI or NCCL, is not among them.\n");
}

void require_writable(const std::string& file) {
  if (file.empty()) return;
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(file, ignored);
  const bool opens = std::ofstream(file, std::ios::app).is_open();
  if (opens && is_new) std::filesystem::remove(file, ignored);
  if (!opens) give_up("'{}' cannot be written: name a file in a folder that exists and is yours", file);
}

JsonValue list_of(const Rows& rows) {
  JsonValue list = JsonValue::array();
  for (const JsonValue& row : rows) list.push_back(row);
  return list;
}

void write_rows(const Rows& rows, const std::string& file) {
  if (!file.empty()) write_json(list_of(rows), file);
}

}  // namespace weir::cli
