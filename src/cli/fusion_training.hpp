// fusion_training.hpp: training steps whose computing is waiting and whose gradients are made up, around a FusedAllreduce.
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

/// Gradients of a model on one rank: normal numbers, whose standard deviations are log-normal between tensors and between the
/// entries of a tensor, the same on all ranks, and differ a little between ranks and iterations.
class MadeUpGradients {
 public:
  MadeUpGradients(const FusionModel& model, int rank);
  /// Those of an iteration replace what is there. The first are four times as large as the others: residuals are then as large as
  /// in the midst of a training.
  void make(std::int64_t iteration);
  [[nodiscard]] std::span<float> of(int tensor);

 private:
  std::uint64_t rank_;
  std::vector<std::int64_t> offsets_;  ///< of tensors, and the end
  std::vector<float> scales_;          ///< of tensors
  std::vector<float> shared_, noise_;  ///< of entries: read from a place that depends on the tensor, and on rank and iteration
  std::vector<float> values_;
};

/// How a rank's host waits for its GPU.
struct WaitingHost {
  std::function<void(double seconds)> sleep;
  double poll_seconds = 0;  ///< exchanges progress whenever so much time has passed; 0: they do not
};

/// Seconds of computing for each tensor.
struct PassTimes {
  std::vector<double> forward, backward;
  [[nodiscard]] double seconds() const;
};
/// On a GPU that computes `flops` operations a second.
[[nodiscard]] PassTimes pass_times(const FusionModel& model, int batch, double flops);

/// One rank's training. The GPU has all of a pass before it at once and never waits for the host; a layer of the forward pass waits
/// for the updates of its tensors. The host waits for gradients, hands them in as soon as they and the host are ready, and selects.
class FusionTraining {
 public:
  FusionTraining(const Communicator& comm, const FusionConfig& config, const FusionModel& model, bool dense, PassTimes times,
                 WaitingHost host);
  FusionTraining(const FusionTraining&) = delete;
  FusionTraining& operator=(const FusionTraining&) = delete;
  /// A backward pass and the next forward pass: seconds until the GPU is done. All ranks start at the same time.
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
  PassTimes times_;
  WaitingHost host_;
  std::array<std::string, 4> names_;
  std::array<RunInfo, 4> rows_;  ///< of the trace
};

}  // namespace weir::cli
