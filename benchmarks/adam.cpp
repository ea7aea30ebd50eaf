// weir-benchmarks adam: measures steps of sparse Adam in one thread against dense Adam over all weights.
#include <fmt/core.h>

#include <random>
#include <weir/sparse_adam.hpp>

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

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        sparse_({.count = options.count}),
        dense_({.count = options.count, .exact = true}),
        weights_(static_cast<std::size_t>(options.count), 1) {}

  JsonValue measure(double density) {
    // Updates take turns, so that no entry is still in a cache from its last use.
    std::vector<Update> updates;
    for (unsigned seed = 1; seed <= 4; ++seed) updates.emplace_back(options_.count, density, seed);
    std::vector<double> of_sparse, of_dense;  // ms
    constexpr int warm = 2;
    for (int t = -warm; t < options_.iterations; ++t) {
      const SparseView<float> update = updates[static_cast<std::size_t>(t + warm) % updates.size()].view();
      const double sparse_ms = milliseconds_of([&] { sparse_.step(update, weights_, 1e-3); });
      const double dense_ms = milliseconds_of([&] { dense_.step(update, weights_, 1e-3); });
      if (t < 0) continue;
      of_sparse.push_back(sparse_ms);
      of_dense.push_back(dense_ms);
    }
    double entries = 0;
    for (const Update& update : updates)
      entries += static_cast<double>(update.indices.size()) / static_cast<double>(updates.size());
    const double step_ms = median(of_sparse), dense_ms = median(of_dense);
    return {{"benchmark", "adam"},
            {"count", options_.count},
            {"density", density},
            {"entries", entries},
            {"median_ms", step_ms},
            {"min_ms", minimum(of_sparse)},
            {"ns_per_entry", entries > 0 ? step_ms * 1e6 / entries : 0},
            {"baseline", "dense"},
            {"baseline_ms", dense_ms},
            {"baseline_min_ms", minimum(of_dense)},
            {"speedup", dense_ms / step_ms}};
  }

 private:
  const Options& options_;
  SparseAdam sparse_, dense_;
  std::vector<float> weights_;
};

void run(const Options& options) {
  require_writable(options.json);
  Bench bench(options);
  Rows rows;
  for (const double density : options.densities) rows.push_back(bench.measure(density));
  print_table(rows,
              "{density:>8.4g} {entries:>10.0f} {median_ms:>10.4f} {min_ms:>10.4f} {ns_per_entry:>10.2f} {baseline_ms:>10.3f} "
              "{baseline_min_ms:>10.3f} {speedup:>8.2f}",
              {"density", "entries", "step ms", "min ms", "ns/entry", "dense ms", "min ms", "speedup"});
  fmt::print("step: median of sparse Adam. dense: the same update by Adam over all {} weights. Entries are in random places.\n",
             options.count);
  write_rows(rows, options.json);
}

}  // namespace

void add_adam(Command& benchmarks) {
  auto [command, options] =
      benchmarks.add("adam", "Measure steps of sparse Adam on one thread, compared with dense Adam over all weights", run);
  command.option("--count", options.count, "number of weights").between(std::int64_t{1}, (std::int64_t{1} << 32) - 1);
  command.option("--density", options.densities, "share of the weights in an update, one or more values").between(1e-9, 1.0);
  command.option("--iterations", options.iterations, "measured steps").positive();
  command.option("--json", options.json, "also write the rows to this file");
}

}  // namespace weir::cli
