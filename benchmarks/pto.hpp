// pto.hpp: options for measuring LARS and LAMB with divided and undivided work.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "cli/fusion_model.hpp"

namespace weir::cli {

class Command;

struct PtoOptions {
  std::vector<std::string> models = {"resnet50"};
  std::int64_t smallest = 8192;
  int iterations = 15, warmup = 2;
  std::string json;
};
void add_pto_options(Command& command, PtoOptions& options);

/// How ranks start together, and how weights and gradients are filled at first, tensor by tensor.
struct PtoHost {
  std::function<void()> start_together;
  std::function<void(std::span<float> values)> fill;
};

/// Collective. Measures each model with every division; divisions take turns in every iteration. Rank 0 prints and writes the
/// results, and what the cost functions predict.
void bench_pto(const Communicator& comm, const PtoOptions& options, std::span<const FusionModel> models, const PtoHost& host);

}  // namespace weir::cli
