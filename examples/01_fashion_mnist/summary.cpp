#include "summary.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "report.hpp"

namespace fashion_mnist {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Json& run) { return run.at("name").get<std::string>(); }

/// Returns the place of a run in the table: dense runs come first, compressed ones last.
int rank_of(const Json& run) { return run.at("sparse").get<bool>() ? 1 : run.at("compressed").get<bool>() ? 2 : 0; }

/// Returns all runs of the folder: dense ones first, then by name.
std::vector<Json> read_runs(const std::filesystem::path& folder) {
  std::vector<Json> runs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "summary.json") continue;
    std::ifstream file(entry.path());
    runs.push_back(Json::parse(file));
  }
  if (runs.empty()) throw std::runtime_error("there is no finished run in " + folder.string());
  std::ranges::sort(runs, {}, [](const Json& run) { return std::pair(rank_of(run), name_of(run)); });
  return runs;
}

void print_table(const std::vector<Json>& runs) {
  const auto number = [](const Json& run, const char* key) { return run.at(key).get<double>(); };
  const Json& reference = runs.front();
  std::size_t width = 20;
  for (const Json& run : runs) width = std::max(width, name_of(run).size());
  const auto wide = static_cast<int>(width);
  std::printf("%-*s %9s %13s %10s %9s %11s %10s %7s %9s %10s\n", wide, "", "test", "sent by rank", "", "ms per", "", "", "", "",
              "");
  std::printf("%-*s %9s %13s %10s %9s = %9s + %8s + %5s + %7s %10s\n", wide, "algorithm", "accuracy", "and step", "relative",
              "step", "selection", "exchange", "apply", "compute", "relative");
  for (const Json& run : runs) {
    const double bytes = number(run, "bytes_per_rank_per_step");
    const double ms = number(run, "ms_per_step");
    std::printf("%-*s %7.2f %% %13s %8.1f %% %9.2f   %9.2f   %8.2f   %5.2f   %7.2f %8.1f %%\n", wide, name_of(run).c_str(),
                number(run, "accuracy") * 100, format_bytes(bytes).c_str(),
                bytes / number(reference, "bytes_per_rank_per_step") * 100, ms, number(run, "ms_selection_per_step"),
                number(run, "ms_exchange_per_step"), number(run, "ms_apply_per_step"), number(run, "ms_compute_per_step"),
                ms / number(reference, "ms_per_step") * 100);
  }
}

}  // namespace

void summarise(const std::filesystem::path& folder) {
  const std::vector<Json> runs = read_runs(folder);
  Json summary;
  for (const Json& run : runs) summary[name_of(run)] = run;
  std::ofstream file(folder / "summary.json");
  if (!(file << summary.dump(2) << '\n')) throw std::runtime_error("cannot write " + (folder / "summary.json").string());
  print_table(runs);
}

}  // namespace fashion_mnist
