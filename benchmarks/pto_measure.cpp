// Measures and prints for `weir-benchmarks pto`, on MPI and on simulated machines.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <weir/optim.hpp>

#include "base/buffer.hpp"
#include "base/config_check.hpp"
#include "base/json.hpp"
#include "benchmarks/pto.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/command.hpp"
#include "cli/report.hpp"
#include "optim/layer_optimizer.hpp"

namespace weir::cli {
namespace {

/// How the norms and the update are divided.
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

/// Arrays of all layers, contiguous.
class Arrays {
 public:
  Arrays(const FusionModel& model, const PtoHost& host) : values_(model.elements()) {
    float* at = values_.data();
    for (const FusionModel::Tensor& tensor : model.tensors) {
      host.fill({at, static_cast<std::size_t>(tensor.count)});
      pointers_.push_back(at);
      at += tensor.count;
    }
  }
  [[nodiscard]] std::span<float* const> write() const { return pointers_; }
  [[nodiscard]] std::vector<const float*> read() const { return {pointers_.begin(), pointers_.end()}; }

 private:
  Buffer<float> values_;
  std::vector<float*> pointers_;
};

struct Result {
  OptimizerConfig asked, config;
  optim::StepCost predicted;
  double step_ms = 0, step_min_ms = 0, norms_ms = 0, update_ms = 0, gather_ms = 0;
  std::int64_t memory_bytes = 0;
};

/// One optimizer and its samples.
class Subject {
 public:
  Subject(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers)
      : asked_(config), optimizer_(comm, config, layers) {}

  void iterate(const Arrays& weights, const std::vector<const float*>& gradients, const PtoHost& host, bool counts) {
    host.start_together();
    const double begin = MPI_Wtime();
    optimizer_.step(weights.write(), gradients, 1e-5);
    std::array<double, 1> ms = {(MPI_Wtime() - begin) * 1e3};
    over_ranks(ms, MPI_MAX);
    if (!counts) return;
    const OptimizerStatistics& s = optimizer_.statistics();
    steps_.push_back(ms[0]);
    parts_[0].push_back(s.seconds_norms * 1e3);
    parts_[1].push_back(s.seconds_update * 1e3);
    parts_[2].push_back(s.seconds_gather * 1e3);
  }
  /// Collective. Returns the slowest rank's result.
  [[nodiscard]] Result result() const {
    std::array<double, 3> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = median(parts_[i]);
    over_ranks(parts, MPI_MAX);
    return {asked_,
            optimizer_.config(),
            optimizer_.state()->predicted(),
            median(steps_),
            minimum(steps_),
            parts[0],
            parts[1],
            parts[2],
            over_ranks(optimizer_.memory_bytes(), MPI_MAX)};
  }
  [[nodiscard]] std::string explanation() const { return optimizer_.explanation(); }

 private:
  OptimizerConfig asked_;
  LayerOptimizer optimizer_;
  std::vector<double> steps_;
  std::array<std::vector<double>, 3> parts_;
};

std::vector<Result> measure(const Communicator& comm, const PtoOptions& options, const FusionModel& model, OptimizerRule rule,
                            const PtoHost& host) {
  const std::vector<OptimizedLayer> layers = layers_of(model, options.smallest);
  const Arrays weights(model, host), gradients(model, host);
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
  Progress progress(comm.rank() == 0, fmt::format("{}, {}", model.name, name_of(rule)), options.iterations + options.warmup);
  for (int t = -options.warmup; t < options.iterations; ++t) {
    for (auto& subject : subjects) subject->iterate(weights, read, host, t >= 0);
    progress.at(t + options.warmup + 1);
  }
  std::vector<Result> results;
  for (const auto& subject : subjects) results.push_back(subject->result());
  if (comm.rank() == 0) fmt::print("{}", subjects.back()->explanation());
  return results;
}

JsonValue row_of(const FusionModel& model, const Result& r, const Result& baseline, int ranks) {
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
          {"predicted_ms", r.predicted.seconds() * 1e3},
          {"predicted_norms_ms", r.predicted.norms * 1e3},
          {"predicted_update_ms", r.predicted.update * 1e3},
          {"predicted_gather_ms", r.predicted.gather * 1e3},
          {"memory_bytes", r.memory_bytes},
          {"baseline", "replicated"},
          {"baseline_ms", baseline.step_ms},
          {"speedup", baseline.step_ms / r.step_ms}};
}

void print(const FusionModel& model, const std::vector<Result>& results, int ranks) {
  fmt::print("{}, {}: {} layers, {} elements, {} ranks\n", model.name, name_of(results[0].asked.rule), model.tensors.size(),
             model.elements(), ranks);
  constexpr auto columns = "{:<12} {:<12} {:>17} {:>9} {:>17} {:>17} {:>17} {:>8} {:>8}\n";
  fmt::print(columns, "norms", "update", "step ms", "min ms", "norms ms", "update ms", "gather ms", "MB", "speedup");
  for (const Result& r : results) {
    const auto named = [](OperatorDivision asked, OperatorDivision in_force) {
      return asked == in_force ? std::string(name_of(asked)) : fmt::format("auto: {}", name_of(in_force));
    };
    const auto both = [](double ms, double predicted) { return fmt::format("{:.3f} ({:.3f})", ms, predicted * 1e3); };
    fmt::print(columns, named(r.asked.norms, r.config.norms), named(r.asked.update, r.config.update),
               both(r.step_ms, r.predicted.seconds()), fmt::format("{:.3f}", r.step_min_ms), both(r.norms_ms, r.predicted.norms),
               both(r.update_ms, r.predicted.update), both(r.gather_ms, r.predicted.gather),
               fmt::format("{:.1f}", static_cast<double>(r.memory_bytes) * 1e-6),
               fmt::format("{:.3f}", results[0].step_ms / r.step_ms));
  }
}

}  // namespace

void bench_pto(const Communicator& comm, const PtoOptions& options, std::span<const FusionModel> models, const PtoHost& host) {
  JsonValue rows = JsonValue::array();
  for (const FusionModel& model : models) {
    for (const OptimizerRule rule : {OptimizerRule::lars, OptimizerRule::lamb}) {
      const std::vector<Result> results = measure(comm, options, model, rule, host);
      if (comm.rank() != 0) continue;
      print(model, results, comm.size());
      for (const Result& r : results) rows.push_back(row_of(model, r, results[0], comm.size()));
    }
  }
  if (comm.rank() != 0) return;
  fmt::print(
      "step: median of the slowest rank. norms, update: work on a rank's share. gather: agreeing and gathering, with waiting.\n"
      "In brackets: what the cost functions predict. MB: memory of a rank's optimizer. speedup: relative to replicated work.\n");
  if (options.json.empty()) return;
  write_json(rows, options.json);
}

void add_pto_options(Command& command, PtoOptions& options) {
  command
      .option(
          "--model", options.models,
          "networks to measure: installed tables (resnet50, resnet152, vgg19, bert_base, gpt2_large), files of such tables, or all")
      .delimiter(',');
  command.option("--smallest", options.smallest, "least elements of a layer that is scaled; smaller layers are biases and norms")
      .non_negative();
  command.option("--iterations", options.iterations, "measured steps of each division, in turns").positive();
  command.option("--warmup", options.warmup, "steps of each division before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
