// bench_fusion.hpp: the schemes of tensor fusion side by side: what is asked for, and what has come out.
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

/// Beside the schemes: all tensors whole, in buffers of that size.
inline constexpr std::string_view dense_scheme = "dense";

struct FusionOptions {
  std::vector<std::string> models = {"resnet50"};
  std::vector<std::string> schemes = {"all"};  ///< of fusion_schemes()
  double gflops = 10000;                       ///< what a GPU computes a second
  int batch = 0;                               ///< samples; 0: the model's
  std::int64_t shrink = 1;
  double buffer_mib = 25;  ///< of the tensors as they are before they shrink
  int iterations = 10, warmup = 10;
  double poll_us = 200;
  std::string json;
  FusionConfig config;
};
void add_fusion_options(Command& command, FusionOptions& options);
/// Returns those of the build, and dense_scheme.
[[nodiscard]] std::vector<std::string> fusion_schemes();

/// How ranks come to a common start, and wait.
struct FusionHost {
  std::function<void()> start_together;
  std::function<void(double seconds)> sleep;
};

/// Figures of one scheme. Milliseconds and megabytes are those of the rank where they are most.
struct FusionResult {
  std::string scheme, algorithm;        ///< that exchanged
  double step_ms = 0, step_min_ms = 0;  ///< backward pass, and forward pass as updates arrive
  double exposed_ms = 0;                ///< of it, what is not computing
  double select_ms = 0, waited_ms = 0;  ///< in ready(), and in wait() and wait_all()
  double startups = 0;                  ///< buffers exchanged
  double sent_mb = 0, received_mb = 0;  ///< payload and control
  double control_mb = 0;                ///< of what is sent
  double missing = 0;                   ///< tensors of which nothing was delivered
  double limit_ms = 0;                  ///< no step is shorter: computing, or these bytes through the card
  std::int64_t regroupings = 0, memory_bytes = 0;
};
struct FusionResults {
  FusionModel model;  ///< as trained: shrunk
  int batch = 1;
  double compute_ms = 0, card_mb_per_s = 0;
  std::vector<FusionResult> schemes;
};

/// Collective. Measures each model by every scheme, one after another in every iteration. Rank 0 prints and writes what comes out.
void bench_fusion(const Communicator& comm, const FusionOptions& options, std::vector<FusionModel> models, const FusionHost& host);

void print_fusion(const FusionResults& results, const FusionOptions& options, int ranks);
/// Throws std::runtime_error naming the file.
void write_fusion(const std::vector<FusionResults>& models, const FusionOptions& options, int ranks);

}  // namespace weir::cli
