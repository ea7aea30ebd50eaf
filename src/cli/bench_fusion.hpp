// bench_fusion.hpp: compares the schemes of tensor fusion: options and results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include <weir/fusion.hpp>

#include "cli/fusion_training.hpp"

namespace weir::cli {

class Command;

/// One more "scheme": all tensors dense, in buffers of the given size.
inline constexpr std::string_view dense_scheme = "dense";

struct FusionOptions {
  std::vector<std::string> models = {"resnet50"};
  std::vector<std::string> schemes = {"all"};  ///< of fusion_schemes()
  double gflops = 10000;                       ///< speed of a GPU
  int batch = 0;                               ///< samples; 0: the model's default
  std::int64_t shrink = 1;
  double buffer_mib = 25;  ///< refers to the tensors before they shrink
  int iterations = 10, warmup = 10;
  double poll_us = 200;
  std::string json;
  FusionConfig config;
};
void add_fusion_options(Command& command, FusionOptions& options);
/// Returns the schemes of the build, and dense_scheme.
[[nodiscard]] std::vector<std::string> fusion_schemes();

/// How ranks start together, and wait.
struct FusionHost {
  std::function<void()> start_together;
  std::function<void(double seconds)> sleep;
};

/// Results of one scheme. Milliseconds and megabytes are maxima over ranks.
struct FusionResult {
  std::string scheme, algorithm;        ///< algorithm used
  double step_ms = 0, step_min_ms = 0;  ///< backward pass, and forward pass as updates arrive
  double exposed_ms = 0;                ///< part of the step that is not computing
  double select_ms = 0, waited_ms = 0;  ///< in ready(), and in wait() and wait_all()
  double startups = 0;                  ///< buffers exchanged
  double sent_mb = 0, received_mb = 0;  ///< payload and control
  double control_mb = 0;                ///< part of what is sent
  double missing = 0;                   ///< tensors without any delivered entry
  double limit_ms = 0;                  ///< lower bound of a step: computing, or sending these bytes through the network card
  std::int64_t regroupings = 0, memory_bytes = 0;
};
struct FusionResults {
  FusionModel model;  ///< as trained: shrunk
  int batch = 1;
  double compute_ms = 0, card_mb_per_s = 0;
  std::vector<FusionResult> schemes;
};

/// Collective. Measures each model with every scheme; schemes take turns in every iteration. Rank 0 prints and writes the results.
void bench_fusion(const Communicator& comm, const FusionOptions& options, std::vector<FusionModel> models, const FusionHost& host);

void print_fusion(const FusionResults& results, const FusionOptions& options, int ranks);
/// Throws std::runtime_error naming the file.
void write_fusion(const std::vector<FusionResults>& models, const FusionOptions& options, int ranks);

}  // namespace weir::cli
