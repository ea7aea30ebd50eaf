// fusion_training.hpp: runs training steps around a FusedAllreduce. Computing is waiting, and gradients are synthetic.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>
#include <weir/fusion.hpp>
#include <weir/observer.hpp>

#include "cli/fusion_model.hpp"

namespace weir::cli {

/// Gradients of a model on one rank: normal numbers. Their standard deviations are log-normal between tensors and between the
/// entries of a tensor. They are the same on all ranks, and values differ slightly between ranks and iterations.
class MadeUpGradients {
 public:
  MadeUpGradients(const FusionModel& model, int rank);
  /// Makes the gradients of an iteration in place. Those of the first iteration are four times as large, so that residuals are as
  /// large as in the middle of a training.
  void make(std::int64_t iteration);
  [[nodiscard]] std::span<float> of(int tensor);

 private:
  std::uint64_t rank_;
  std::vector<std::int64_t> offsets_;  ///< of tensors, and the end
  std::vector<float> scales_;          ///< of tensors
  std::vector<float> shared_, noise_;  ///< of entries; the place to read from depends on the tensor, and on rank and iteration
  std::vector<float> values_;
};

/// Returns the seconds of computing for each tensor in a forward pass, on a GPU with `flops` operations per second. A backward pass
/// takes twice as long.
[[nodiscard]] std::vector<double> forward_seconds(const FusionModel& model, int batch, double flops);

/// One rank's training. The GPU gets all work of a pass at once and never waits for the host. A layer of the forward pass waits for
/// the updates of its tensors. The host waits for gradients, hands them in as soon as both are ready, and selects.
class FusionTraining {
 public:
  /// `sleep` is how the host waits. `poll_seconds`: interval at which exchanges make progress meanwhile; 0: they make none.
  FusionTraining(const Communicator& comm, const FusionConfig& config, const FusionModel& model, bool dense,
                 std::vector<double> forward_seconds, std::function<void(double seconds)> sleep, double poll_seconds);
  FusionTraining(const FusionTraining&) = delete;
  FusionTraining& operator=(const FusionTraining&) = delete;
  /// Runs a backward pass and the next forward pass. Returns the seconds until the GPU has finished. All ranks start together.
  double step(MadeUpGradients& gradients);
  [[nodiscard]] const FusedAllreduce& fused() const { return fused_; }

 private:
  void wait_until(double time);
  enum Row { backward, ready, wait, forward };
  template <class Body>
  void traced(Row row, int tensor, Body body);
  void trace(Row row, int tensor, double begin, double end);

  Communicator comm_;
  FusedAllreduce fused_;
  std::vector<double> forward_seconds_;
  std::function<void(double)> sleep_;
  double poll_seconds_;
  std::array<std::string, 4> names_;
  std::array<RunInfo, 4> rows_;  ///< in the trace
};

}  // namespace weir::cli
