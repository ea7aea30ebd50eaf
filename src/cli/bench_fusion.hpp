// bench_fusion.hpp: compares the schemes of tensor fusion: options and results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include <weir/fusion.hpp>

#include "cli/fusion_training.hpp"

namespace weir::cli {

class Command;

struct FusionOptions {
  std::vector<std::string> models = {"resnet50"};
  std::vector<std::string> schemes = {"all"};  ///< of the build, or dense
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

/// How ranks start together, and wait.
struct FusionHost {
  std::function<void()> start_together;
  std::function<void(double seconds)> sleep;
};

/// Collective. Measures each model with every scheme; schemes take turns in every iteration. Rank 0 prints and writes the results.
void bench_fusion(const Communicator& comm, const FusionOptions& options, std::vector<FusionModel> models, const FusionHost& host);

}  // namespace weir::cli
