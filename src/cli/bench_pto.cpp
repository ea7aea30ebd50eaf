// weir bench pto: LARS and LAMB over the layers of well-known networks, work divided among ranks against work done by each. Start
// it with mpirun.
#include <fmt/format.h>
#include <weir/mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <weir/optim.hpp>

#include "base/config_check.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/fusion_model.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::vector<std::string> models = {"resnet50"};
  std::int64_t smallest = 8192;
  int iterations = 15;
  std::string json;
};

/// Who shares norms, and who the update.
struct Division {
  OperatorDivision norms, update;
};
constexpr Division nobody{OperatorDivision::replicated, OperatorDivision::replicated};
constexpr std::array of_lars = {nobody,
                                Division{OperatorDivision::node, OperatorDivision::replicated},
                                Division{OperatorDivision::all, OperatorDivision::replicated},
                                Division{OperatorDivision::all, OperatorDivision::node},
                                Division{OperatorDivision::all, OperatorDivision::all},
                                Division{OperatorDivision::automatic, OperatorDivision::automatic}};
constexpr std::array of_lamb = {nobody, Division{OperatorDivision::node, OperatorDivision::node},
                                Division{OperatorDivision::all, OperatorDivision::all},
                                Division{OperatorDivision::automatic, OperatorDivision::automatic}};

std::vector<OptimizedLayer> layers_of(const FusionModel& model, std::int64_t smallest) {
  std::vector<OptimizedLayer> layers;
  for (const FusionModel::Tensor& tensor : model.tensors)
    layers.push_back({.name = tensor.name, .count = tensor.count, .excluded = tensor.count < smallest});
  return layers;
}

/// Arrays of all layers, next to each other.
class Arrays {
 public:
  Arrays(const FusionModel& model, float scale) : values_(std::move(make_gradients(model.elements(), 0, 1)[0])) {
    float* at = values_.data();
    for (const FusionModel::Tensor& tensor : model.tensors) {
      pointers_.push_back(at);
      at += tensor.count;
    }
    for (float& value : values_) value *= scale;
  }
  [[nodiscard]] std::span<float* const> write() const { return pointers_; }
  [[nodiscard]] std::vector<const float*> read() const { return {pointers_.begin(), pointers_.end()}; }

 private:
  std::vector<float> values_;
  std::vector<float*> pointers_;
};

struct Result {
  OptimizerConfig asked, config;
  double step_ms = 0, step_min_ms = 0, norms_ms = 0, update_ms = 0, gather_ms = 0;
  std::int64_t memory_bytes = 0;
};

/// One optimizer, from iteration to iteration.
class Subject {
 public:
  Subject(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers)
      : asked_(config), optimizer_(comm, config, layers) {}

  void iterate(const Arrays& weights, const std::vector<const float*>& gradients, bool counts) {
    const double ms = milliseconds([&] { optimizer_.step(weights.write(), gradients, 1e-3); });
    if (!counts) return;
    const OptimizerStatistics& s = optimizer_.statistics();
    steps_.push_back(ms);
    parts_[0].push_back(s.seconds_norms * 1e3);
    parts_[1].push_back(s.seconds_update * 1e3);
    parts_[2].push_back(s.seconds_gather * 1e3);
  }
  /// Collective: of the slowest rank.
  [[nodiscard]] Result result() const {
    std::array<double, 3> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = median(parts_[i]);
    over_ranks(parts, MPI_MAX);
    return {asked_,         optimizer_.config(),
            median(steps_), minimum(steps_),
            parts[0],       parts[1],
            parts[2],       over_ranks(optimizer_.memory_bytes(), MPI_MAX)};
  }
  [[nodiscard]] std::string explanation() const { return optimizer_.explanation(); }

 private:
  OptimizerConfig asked_;
  LayerOptimizer optimizer_;
  std::vector<double> steps_;
  std::array<std::vector<double>, 3> parts_;
};

std::vector<Result> measure(const Communicator& comm, const Options& options, const FusionModel& model, OptimizerRule rule) {
  const std::vector<OptimizedLayer> layers = layers_of(model, options.smallest);
  const Arrays weights(model, 1), gradients(model, 1e-2F);
  const std::vector<const float*> read = gradients.read();
  std::vector<std::unique_ptr<Subject>> subjects;
  const auto add = [&](const Division& division) {
    subjects.push_back(std::make_unique<Subject>(
        comm, OptimizerConfig{.rule = rule, .norms = division.norms, .update = division.update, .name = std::string(name_of(rule))},
        layers));
  };
  if (rule == OptimizerRule::lars)
    std::for_each(of_lars.begin(), of_lars.end(), add);
  else
    std::for_each(of_lamb.begin(), of_lamb.end(), add);
  Progress progress(comm.rank() == 0, fmt::format("{}, {}", model.name, name_of(rule)), options.iterations + 2);
  for (int t = -2; t < options.iterations; ++t) {
    for (auto& subject : subjects) subject->iterate(weights, read, t >= 0);
    progress.at(t + 3);
  }
  std::vector<Result> results;
  for (const auto& subject : subjects) results.push_back(subject->result());
  if (comm.rank() == 0) fmt::print("{}", subjects.back()->explanation());
  return results;
}

nlohmann::ordered_json row_of(const FusionModel& model, const Result& r, const Result& baseline, int ranks) {
  return {{"benchmark", "pto"},
          {"model", model.name},
          {"rule", name_of(r.asked.rule)},
          {"ranks", ranks},
          {"layers", model.tensors.size()},
          {"elements", model.elements()},
          {"norms", name_of(r.asked.norms)},
          {"update", name_of(r.asked.update)},
          {"norms_in_force", name_of(r.config.norms)},
          {"update_in_force", name_of(r.config.update)},
          {"median_ms", r.step_ms},
          {"min_ms", r.step_min_ms},
          {"norms_ms", r.norms_ms},
          {"update_ms", r.update_ms},
          {"gather_ms", r.gather_ms},
          {"memory_bytes", r.memory_bytes},
          {"baseline", "replicated"},
          {"baseline_ms", baseline.step_ms},
          {"speedup", baseline.step_ms / r.step_ms}};
}

void print(const FusionModel& model, const std::vector<Result>& results, int ranks) {
  fmt::print("{}, {}: {} layers, {} elements, {} ranks\n", model.name, name_of(results[0].asked.rule), model.tensors.size(),
             model.elements(), ranks);
  fmt::print("{:<12} {:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "norms", "update", "step ms", "min ms", "norms ms",
             "update ms", "gather ms", "MB", "speedup");
  for (const Result& r : results) {
    const auto named = [](OperatorDivision asked, OperatorDivision in_force) {
      return asked == in_force ? std::string(name_of(asked)) : fmt::format("auto: {}", name_of(in_force));
    };
    fmt::print("{:<12} {:<12} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.1f} {:>10.3f}\n",
               named(r.asked.norms, r.config.norms), named(r.asked.update, r.config.update), r.step_ms, r.step_min_ms, r.norms_ms,
               r.update_ms, r.gather_ms, static_cast<double>(r.memory_bytes) * 1e-6, results[0].step_ms / r.step_ms);
  }
}

void run(const Options& options) {
  std::vector<FusionModel> models;
  for (const std::string& name : options.models == std::vector<std::string>{"all"} ? installed_models() : options.models)
    models.push_back(load_model(name));
  MPI_Init(nullptr, nullptr);
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0) require_writable(options.json);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const FusionModel& model : models) {
    for (const OptimizerRule rule : {OptimizerRule::lars, OptimizerRule::lamb}) {
      const std::vector<Result> results = measure(comm, options, model, rule);
      if (comm.rank() != 0) continue;
      print(model, results, comm.size());
      for (const Result& r : results) rows.push_back(row_of(model, r, results[0], comm.size()));
    }
  }
  if (comm.rank() != 0) return;
  fmt::print(
      "step: of the slowest rank, median; norms, update: work on this rank's share; gather: agreeing and gathering, waiting "
      "included;\n"
      "MB: held by the optimizer of a rank; speedup: over every rank doing all.\n");
  if (options.json.empty()) return;
  std::ofstream out(options.json);
  out << rows.dump(1) << '\n';
  if (!out) throw std::runtime_error(fmt::format("cannot write the JSON file '{}'", options.json));
}

}  // namespace

void add_bench_pto(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "pto", "LARS and LAMB over the layers of well-known networks, divided among ranks and by each; start with mpirun");
  command
      ->add_option("--model", options->models,
                   "names of installed tables (resnet50, resnet152, vgg19, bert_base, gpt2_large), files of such tables, or all")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--smallest", options->smallest, "layers of fewer elements are biases and norms, which are not scaled")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--iterations", options->iterations, "measured steps of each division, which take turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json, "rank 0 also writes the rows to this file");
  command->callback([options] { run(*options); });
}

}  // namespace weir::cli
