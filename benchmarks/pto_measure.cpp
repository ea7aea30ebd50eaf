// Measures and prints for `weir-benchmarks pto`, on MPI and on simulated machines.
#include <fmt/core.h>

#include <array>
#include <memory>
#include <weir/optim.hpp>

#include "base/buffer.hpp"
#include "base/config_check.hpp"
#include "benchmarks/pto.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/command.hpp"
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

/// One optimizer and its samples.
class Subject {
 public:
  Subject(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers)
      : asked_(config), optimizer_(comm, config, layers) {}

  void iterate(const Arrays& weights, const std::vector<const float*>& gradients, const PtoHost& host, bool counts) {
    host.start_together();
    const double begin = MPI_Wtime();
    optimizer_.step(weights.write(), gradients, 1e-5);
    const double ms = over_ranks((MPI_Wtime() - begin) * 1e3, MPI_MAX);
    if (!counts) return;
    const OptimizerStatistics& s = optimizer_.statistics();
    samples_["step"].push_back(ms);
    samples_["norms"].push_back(s.seconds_norms * 1e3);
    samples_["update"].push_back(s.seconds_update * 1e3);
    samples_["gather"].push_back(s.seconds_gather * 1e3);
  }
  /// Collective. Returns the slowest rank's figures, without those that follow from other divisions.
  [[nodiscard]] JsonValue row(const FusionModel& model, int ranks) {
    const OptimizerConfig& config = optimizer_.config();
    const optim::StepCost predicted = optimizer_.state()->predicted();
    const auto slowest = [&](std::string_view part) { return over_ranks(median(samples_[part]), MPI_MAX); };
    return {{"benchmark", "pto"},
            {"model", model.name},
            {"rule", name_of(asked_.rule)},
            {"ranks", ranks},
            {"layers", model.tensors.size()},
            {"elements", model.elements()},
            {"norms", name_of(asked_.norms)},
            {"update", name_of(asked_.update)},
            {"norms_in_force", name_of(config.norms)},
            {"update_in_force", name_of(config.update)},
            {"median_ms", median(samples_["step"])},
            {"min_ms", minimum(samples_["step"])},
            {"norms_ms", slowest("norms")},
            {"update_ms", slowest("update")},
            {"gather_ms", slowest("gather")},
            {"predicted_ms", predicted.seconds() * 1e3},
            {"predicted_norms_ms", predicted.norms * 1e3},
            {"predicted_update_ms", predicted.update * 1e3},
            {"predicted_gather_ms", predicted.gather * 1e3},
            {"memory_bytes", over_ranks(optimizer_.memory_bytes(), MPI_MAX)},
            {"baseline", "replicated"}};
  }
  [[nodiscard]] std::string explanation() const { return optimizer_.explanation(); }

 private:
  OptimizerConfig asked_;
  LayerOptimizer optimizer_;
  Samples samples_;
};

Rows measure(const Communicator& comm, const PtoOptions& options, const FusionModel& model, OptimizerRule rule,
             const PtoHost& host) {
  const std::vector<OptimizedLayer> layers = layers_of(model, options.smallest);
  const Arrays weights(model, host), gradients(model, host);
  const std::vector<const float*> read = gradients.read();
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const auto& [norms, update] : rule == OptimizerRule::lars ? std::span<const Division>(of_lars) : of_lamb)
    subjects.push_back(std::make_unique<Subject>(
        comm, OptimizerConfig{.rule = rule, .norms = norms, .update = update, .name = std::string(name_of(rule))}, layers));
  Progress progress(comm.rank() == 0, fmt::format("{}, {}", model.name, name_of(rule)), options.iterations + options.warmup);
  for (int t = -options.warmup; t < options.iterations; ++t) {
    for (auto& subject : subjects) subject->iterate(weights, read, host, t >= 0);
    progress.at(t + options.warmup + 1);
  }
  Rows rows;
  for (const auto& subject : subjects) rows.push_back(subject->row(model, comm.size()));
  const double replicated = number_of(rows[0], "median_ms");
  for (JsonValue& row : rows) {
    row.set("baseline_ms", replicated);
    row.set("speedup", replicated / number_of(row, "median_ms"));
  }
  if (comm.rank() == 0) fmt::print("{}", subjects.back()->explanation());
  return rows;
}

void print(const FusionModel& model, Rows rows, int ranks) {
  fmt::print("{}, {}: {} layers, {} elements, {} ranks\n", model.name, rows[0].view().at("rule").string(), model.tensors.size(),
             model.elements(), ranks);
  for (JsonValue& row : rows) {
    const JsonView r = row.view();
    for (const std::string part : {"norms", "update"}) {
      const std::string in_force = r.at((part + "_in_force").c_str()).string();
      if (r.at(part.c_str()).string() != in_force) row.set(part, "auto: " + in_force);
    }
    const auto both = [&](const char* ms, const char* predicted) {
      row.set(ms, fmt::format("{:.3f} ({:.3f})", r.at(ms).number(), r.at(predicted).number()));
    };
    both("median_ms", "predicted_ms");
    both("norms_ms", "predicted_norms_ms");
    both("update_ms", "predicted_update_ms");
    both("gather_ms", "predicted_gather_ms");
    row.set("mb", r.at("memory_bytes").number() * 1e-6);
  }
  print_table(rows,
              "{norms:<12} {update:<12} {median_ms:>17} {min_ms:>9.3f} {norms_ms:>17} {update_ms:>17} {gather_ms:>17} {mb:>8.1f} "
              "{speedup:>8.3f}",
              {"norms", "update", "step ms", "min ms", "norms ms", "update ms", "gather ms", "MB", "speedup"});
}

}  // namespace

void bench_pto(const Communicator& comm, const PtoOptions& options, std::span<const FusionModel> models, const PtoHost& host) {
  Rows all;
  for (const FusionModel& model : models) {
    for (const OptimizerRule rule : {OptimizerRule::lars, OptimizerRule::lamb}) {
      const Rows rows = measure(comm, options, model, rule, host);
      if (comm.rank() != 0) continue;
      print(model, rows, comm.size());
      all.insert(all.end(), rows.begin(), rows.end());
    }
  }
  if (comm.rank() != 0) return;
  fmt::print(
      "step: median of the slowest rank. norms, update: work on a rank's share. gather: agreeing and gathering, with waiting.\n"
      "In brackets: what the cost functions predict. MB: memory of a rank's optimizer. speedup: relative to replicated work.\n");
  write_rows(all, options.json);
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
