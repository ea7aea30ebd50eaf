// weir-benchmarks plans: measures one plan for every tensor of a network, all in flight or one after another, against one plan for
// all. Start it with mpirun.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/fusion_model.hpp"

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

void run(const Options& options) {
  const FusionModel model = load_model(options.model);
  std::vector<std::int64_t> counts;
  for (const FusionModel::Tensor& tensor : model.tensors) counts.push_back(tensor.count);
  std::reverse(counts.begin(), counts.end());  // the order in which the backward pass makes gradients
  const Communicator comm = start_ranks(options.json);
  const std::vector<float> gradient = std::move(make_gradients(model.elements(), comm.rank(), 1)[0]);
  Plans one(comm, options, gradient, {model.elements()}), each(comm, options, gradient, counts);
  std::array ways = {Way{"one", [&](int) { one.run_in_order(); }}, Way{"in_flight", [&](int) { each.run_in_flight(); }},
                     Way{"in_order", [&](int) { each.run_in_order(); }}};
  Progress progress(comm.rank() == 0, "plans", options.warmup + options.iterations);
  take_turns(ways, options.warmup, options.iterations, progress);
  if (comm.rank() != 0) return;
  Rows rows, shown;
  for (const Way& way : ways) {
    rows.push_back(row_of("plans_" + way.name, way, ways[0],
                          {{"algorithm", options.algorithm},
                           {"ran_as", options.algorithm},
                           {"count", model.elements()},
                           {"density", options.density},
                           {"ranks", comm.size()},
                           {"allocations_per_iteration", static_cast<double>(way.allocations) / options.iterations}}));
    shown.push_back(rows.back());
    shown.back().set("mode", way.name);
    shown.back().set("plans", &way == &ways[0] ? one.size() : each.size());
  }
  print_table(shown, "{mode:<10} {plans:>6} {median_ms:>10.3f} {min_ms:>10.3f} {ratio:>11.3f} {allocations_per_iteration:>7.3g}",
              {"mode", "plans", "median ms", "min ms", "to one plan", "allocs"});
  fmt::print("bound with resnet50 on 4 ranks: in_flight takes at most {} times as long as one\n", bound);
  write_rows(rows, options.json);
}

}  // namespace

void add_plans(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "plans",
      "Measure a plan for every tensor of a network, in flight and one after another, compared with one plan; start with mpirun",
      run);
  command.option(
      "--model", options.model,
      "network: an installed table of tensors (resnet50, resnet152, vgg19, bert_base, gpt2_large), or a file of such a table");
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse && algorithm.host_memory) names.emplace_back(algorithm.name);
  }
  command.option("--algorithm", options.algorithm, "algorithm of all plans").one_of(names);
  command.option("--density", options.density, "share of entries to deliver").between(1e-9, 1.0);
  command.option("--iterations", options.iterations, "measured iterations, each of which runs every variant once").positive();
  command.option("--warmup", options.warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
