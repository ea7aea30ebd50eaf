#include "summary.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "report.hpp"
#include "scheme.hpp"

namespace language_model {
namespace {

using Json = nlohmann::ordered_json;

constexpr double tolerance = 0.01;

double number(const Json& run, const char* key) { return run.at(key).get<double>(); }

std::string name_of(const Json& run) { return run.at("name").get<std::string>(); }

std::vector<std::string> finished_runs(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const Scheme& scheme : schemes()) {
    if (std::filesystem::exists(folder / (std::string(scheme.name) + ".json"))) names.emplace_back(scheme.name);
  }
  std::vector<std::string> others;  // with other algorithms and compressors
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".json" && name.find('+') != std::string::npos) others.push_back(name);
  }
  std::ranges::sort(others);
  names.insert(names.end(), others.begin(), others.end());
  if (names.empty()) throw std::runtime_error("there is no finished run in " + folder.string());
  return names;
}

std::vector<Json> read_runs(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  std::vector<Json> runs;
  for (const std::string& name : names) {
    const std::filesystem::path path = folder / (name + ".json");
    std::ifstream file(path);
    runs.push_back(Json::parse(file, nullptr, false));
    if (runs.back().is_discarded()) throw std::runtime_error(path.string() + " is not a finished run");
    if (runs.back().at("model") != runs.front().at("model"))
      throw std::runtime_error("the runs in " + folder.string() + " cannot be compared: " + names.front() + " and " + name +
                               " were made with different options; run both again");
  }
  return runs;
}

/// Returns the last step at which all runs were evaluated.
std::int64_t last_common_step(const std::vector<Json>& runs) {
  std::vector<std::int64_t> common;
  for (const Json& point : runs.front().at("curve")) common.push_back(point.at("step"));
  for (const Json& run : runs) {
    std::erase_if(common, [&](std::int64_t step) {
      return std::ranges::none_of(run.at("curve"), [&](const Json& point) { return point.at("step") == step; });
    });
  }
  return common.back();  // not empty: all have step 0
}

double perplexity_at(const Json& run, std::int64_t step) {
  const auto found = std::ranges::find_if(run.at("curve"), [&](const Json& point) { return point.at("step") == step; });
  return found->at("perplexity");
}

void print_table(const std::vector<Json>& runs, std::int64_t step) {
  std::size_t longest = 20;
  for (const Json& run : runs) longest = std::max(longest, name_of(run).size());
  const auto wide = static_cast<int>(longest);
  const std::string at_step = "at " + std::to_string(step);
  std::printf("%-*s %18s %7s %10s %19s %10s %34s\n", wide, "", "perplexity", "", "ms per", "of it, stalled", "of it,",
              "sent by a rank and step");
  std::printf("%-*s %9s %8s %7s %10s %9s %9s %10s %11s %11s %10s\n", wide, "scheme", at_step.c_str(), "last", "steps", "step", "ms",
              "relative", "in tests", "tables", "(most)", "dense");
  for (const Json& run : runs) {
    const double stall = number(run, "ms_stall_per_step");
    std::printf("%-*s %9.1f %8.1f %7.0f %10.2f %9.2f %8.2fx %10.2f %11s %11s %10s\n", wide, name_of(run).c_str(),
                perplexity_at(run, step), number(run, "perplexity"), number(run, "steps"), number(run, "ms_per_step"), stall,
                stall / number(runs.front(), "ms_stall_per_step"), number(run, "ms_progress_per_step"),
                format_bytes(number(run, "table_bytes_per_step")).c_str(),
                format_bytes(number(run, "most_table_bytes_per_step")).c_str(),
                format_bytes(number(run, "dense_bytes_per_step")).c_str());
  }
}

void print_rows(const Json& run, const char* table) {
  const Json& rows = run.at(table);
  std::printf("%s of %s: a rank looks up %.0f rows a step; %.0f after coalescing; the next batch waits for %.0f\n", table,
              name_of(run).c_str(), number(rows, "rows_looked_up"), number(rows, "rows_distinct"), number(rows, "rows_prior"));
}

}  // namespace

bool summarise(const std::filesystem::path& folder, std::vector<std::string> names) {
  if (names.empty()) names = finished_runs(folder);
  const std::vector<Json> runs = read_runs(folder, names);
  const std::int64_t step = last_common_step(runs);
  // Runs with compression or another optimizer need not reach the same perplexity.
  std::vector<Json> same;
  for (const Json& run : runs) {
    if (run.at("dense") == runs.front().at("dense")) same.push_back(run);
  }
  const auto [least, most] = std::ranges::minmax(same, {}, [&](const Json& run) { return perplexity_at(run, step); });
  const double apart = perplexity_at(most, step) / perplexity_at(least, step) - 1;

  Json summary;
  for (const Json& run : runs) summary[name_of(run)] = run;
  std::ofstream file(folder / "summary.json");
  if (!(file << summary.dump(2) << '\n')) throw std::runtime_error("cannot write " + (folder / "summary.json").string());

  print_table(runs, step);
  print_rows(runs.front(), "embedding_table");
  print_rows(runs.front(), "output_table");
  const bool alike = apart <= tolerance;  // false for NaN
  if (same.size() > 1) {
    std::printf("after %lld steps perplexities are within %.3f %% of each other: the schemes have %strained alike\n",
                static_cast<long long>(step), apart * 100, alike ? "" : "NOT ");
  }
  return alike;
}

}  // namespace language_model
