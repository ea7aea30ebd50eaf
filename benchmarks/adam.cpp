// weir-benchmarks adam: measures steps of sparse Adam in one thread against dense Adam over all weights.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <weir/sparse_adam.hpp>

#include "base/json.hpp"
#include "benchmarks/benchmarks.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 16777216;
  std::vector<double> densities{0.0001, 0.001, 0.01, 0.1};
  int iterations = 21;
  std::string json;
};

/// An update in which every index is equally probable.
struct Update {
  Update(std::int64_t count, double density, unsigned seed) {
    std::mt19937_64 random(seed);
    std::geometric_distribution<std::int64_t> gap(density);
    std::normal_distribution<float> value;
    for (std::int64_t at = gap(random); at < count; at += 1 + gap(random)) {
      indices.push_back(static_cast<std::uint32_t>(at));
      values.push_back(value(random));
    }
  }
  [[nodiscard]] SparseView<float> view() const { return {indices, values}; }

  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

template <class Body>
double milliseconds(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct Row {
  double density = 0, entries = 0;
  double step_ms = 0, step_min_ms = 0, dense_ms = 0, dense_min_ms = 0;

  [[nodiscard]] double ns_per_entry() const { return entries > 0 ? step_ms * 1e6 / entries : 0; }
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        sparse_({.count = options.count}),
        dense_({.count = options.count, .exact = true}),
        weights_(static_cast<std::size_t>(options.count), 1) {}

  Row measure(double density) {
    // Updates take turns, so that no entry is still in a cache from its last use.
    std::vector<Update> updates;
    for (unsigned seed = 1; seed <= 4; ++seed) updates.emplace_back(options_.count, density, seed);
    std::vector<double> of_sparse, of_dense;
    constexpr int warm = 2;
    for (int t = -warm; t < options_.iterations; ++t) {
      const SparseView<float> update = updates[static_cast<std::size_t>(t + warm) % updates.size()].view();
      const double sparse_ms = milliseconds([&] { sparse_.step(update, weights_, 1e-3); });
      const double dense_ms = milliseconds([&] { dense_.step(update, weights_, 1e-3); });
      if (t < 0) continue;
      of_sparse.push_back(sparse_ms);
      of_dense.push_back(dense_ms);
    }
    double entries = 0;
    for (const Update& update : updates)
      entries += static_cast<double>(update.indices.size()) / static_cast<double>(updates.size());
    return {density, entries, median(of_sparse), minimum(of_sparse), median(of_dense), minimum(of_dense)};
  }

 private:
  const Options& options_;
  SparseAdam sparse_, dense_;
  std::vector<float> weights_;
};

void print(const std::vector<Row>& rows) {
  fmt::print("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "density", "entries", "step ms", "min ms", "ns/entry",
             "dense ms", "min ms", "speedup");
  for (const Row& r : rows)
    fmt::print("{:>8.4g} {:>10.0f} {:>10.4f} {:>10.4f} {:>10.2f} {:>10.3f} {:>10.3f} {:>8.2f}\n", r.density, r.entries, r.step_ms,
               r.step_min_ms, r.ns_per_entry(), r.dense_ms, r.dense_min_ms, r.dense_ms / r.step_ms);
}

void write_json(const Options& options, const std::vector<Row>& rows) {
  JsonValue list = JsonValue::array();
  for (const Row& r : rows)
    list.push_back({{"benchmark", "adam"},
                    {"count", options.count},
                    {"density", r.density},
                    {"entries", r.entries},
                    {"median_ms", r.step_ms},
                    {"min_ms", r.step_min_ms},
                    {"ns_per_entry", r.ns_per_entry()},
                    {"baseline", "dense"},
                    {"baseline_ms", r.dense_ms},
                    {"baseline_min_ms", r.dense_min_ms},
                    {"speedup", r.dense_ms / r.step_ms}});
  write_json(list, options.json);
}

void run(const Options& options) {
  require_writable(options.json);
  Bench bench(options);
  std::vector<Row> rows;
  for (const double density : options.densities) rows.push_back(bench.measure(density));
  print(rows);
  fmt::print("step: median of sparse Adam. dense: the same update by Adam over all {} weights. Entries are in random places.\n",
             options.count);
  if (!options.json.empty()) write_json(options, rows);
}

}  // namespace

void add_adam(Command& benchmarks) {
  auto options = std::make_shared<Options>();
  Command command = benchmarks.add("adam", "Measure steps of sparse Adam on one thread, compared with dense Adam over all weights");
  command.option("--count", options->count, "number of weights").between(std::int64_t{1}, (std::int64_t{1} << 32) - 1);
  command.option("--density", options->densities, "share of the weights in an update, one or more values").between(1e-9, 1.0);
  command.option("--iterations", options->iterations, "measured steps").positive();
  command.option("--json", options->json, "also write the rows to this file");
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
