// weir-benchmarks plans: measures one plan for every tensor of a network, all in flight or one after another, against one plan for
// all. Start it with mpirun.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <algorithm>
#include <memory>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_turns.hpp"
#include "cli/fusion_model.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

// Upper bound with all in flight, relative to one plan of as many elements: 161 tensors of ResNet-50, 4 ranks.
constexpr double bound = 1.5;

struct Options {
  std::string model = "resnet50", algorithm = "oktopk", json;
  double density = 0.01;
  int iterations = 20, warmup = 3;
};

/// Plans for pieces of one gradient, which they only read.
class Plans {
 public:
  Plans(const Communicator& comm, const Options& options, std::span<const float> gradient,
        const std::vector<std::int64_t>& counts) {
    for (const std::int64_t count : counts) {
      plans_.emplace_back(comm, AllreduceConfig{.count = count, .density = options.density, .algorithm = options.algorithm});
      pieces_.push_back(gradient.first(static_cast<std::size_t>(count)));
      gradient = gradient.subspan(static_cast<std::size_t>(count));
    }
    operations_.reserve(plans_.size());
  }
  void run_in_flight() {
    for (std::size_t i = 0; i < plans_.size(); ++i) operations_.push_back(plans_[i].start_sparse(pieces_[i]));
    for (Operation& operation : operations_) operation.wait();
    operations_.clear();
  }
  void run_in_order() {
    for (std::size_t i = 0; i < plans_.size(); ++i) plans_[i].start_sparse(pieces_[i]).wait();
  }
  [[nodiscard]] std::size_t size() const { return plans_.size(); }

 private:
  std::vector<AllreducePlan> plans_;
  std::vector<std::span<const float>> pieces_;
  std::vector<Operation> operations_;
};

/// `plans`: the number of plans of each way.
void print(const std::vector<Way>& ways, const std::vector<std::size_t>& plans, const Options& options) {
  fmt::print("{:<10} {:>6} {:>10} {:>10} {:>11} {:>7}\n", "mode", "plans", "median ms", "min ms", "to one plan", "allocs");
  for (std::size_t i = 0; i < ways.size(); ++i)
    fmt::print("{:<10} {:>6} {:>10.3f} {:>10.3f} {:>11.3f} {:>7.3g}\n", ways[i].name, plans[i], ways[i].milliseconds(),
               minimum(ways[i].times), ways[i].milliseconds() / ways[0].milliseconds(),
               static_cast<double>(ways[i].allocations) / options.iterations);
  fmt::print("bound with resnet50 on 4 ranks: in_flight takes at most {} times as long as one\n", bound);
}

std::vector<Row> rows_of(const std::vector<Way>& ways, const Options& options, std::int64_t count, int ranks) {
  std::vector<Row> rows;
  for (const Way& way : ways) {
    Row row;
    row.benchmark = "plans_" + way.name;
    row.algorithm = row.ran_as = options.algorithm;
    row.count = count;
    row.density = options.density;
    row.ranks = ranks;
    row.median_ms = way.milliseconds();
    row.min_ms = minimum(way.times);
    row.baseline = "one";
    row.baseline_ms = ways[0].milliseconds();
    row.ratio = row.median_ms / row.baseline_ms;
    row.allocations = static_cast<double>(way.allocations) / options.iterations;
    rows.push_back(std::move(row));
  }
  return rows;
}

void run(const Options& options) {
  const FusionModel model = load_model(options.model);
  std::vector<std::int64_t> counts;
  for (const FusionModel::Tensor& tensor : model.tensors) counts.push_back(tensor.count);
  std::reverse(counts.begin(), counts.end());  // the order in which the backward pass makes gradients
  start_mpi();
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0) require_writable(options.json);
  const std::vector<float> gradient = std::move(make_gradients(model.elements(), comm.rank(), 1)[0]);
  Plans one(comm, options, gradient, {model.elements()}), each(comm, options, gradient, counts);
  std::vector<Way> ways = {{"one", [&](int) { one.run_in_order(); }},
                           {"in_flight", [&](int) { each.run_in_flight(); }},
                           {"in_order", [&](int) { each.run_in_order(); }}};
  Progress progress(comm.rank() == 0, "plans", options.warmup + options.iterations);
  take_turns(ways, options.warmup, options.iterations, 1, progress);
  if (comm.rank() != 0) return;
  print(ways, {one.size(), each.size(), each.size()}, options);
  if (!options.json.empty()) write_json(rows_of(ways, options, model.elements(), comm.size()), options.json);
}

}  // namespace

void add_plans(Command& benchmarks) {
  auto options = std::make_shared<Options>();
  Command command = benchmarks.add(
      "plans",
      "Measure a plan for every tensor of a network, in flight and one after another, compared with one plan; start with mpirun");
  command.option(
      "--model", options->model,
      "network: an installed table of tensors (resnet50, resnet152, vgg19, bert_base, gpt2_large), or a file of such a table");
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse && algorithm.host_memory) names.emplace_back(algorithm.name);
  }
  command.option("--algorithm", options->algorithm, "algorithm of all plans").one_of(names);
  command.option("--density", options->density, "share of entries to deliver").between(1e-9, 1.0);
  command.option("--iterations", options->iterations, "measured iterations, each of which runs every variant once").positive();
  command.option("--warmup", options->warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options->json, "also write the rows to this file, on rank 0");
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
