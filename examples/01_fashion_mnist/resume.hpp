// Checkpoints of a training: what it saves, and how it goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>
#include <weir/optim.hpp>

namespace fashion_mnist {

/// Where to save, and how often.
struct CheckpointOptions {
  std::string folder;        ///< empty: nothing is saved
  std::int64_t every = 100;  ///< steps
  std::string run;           ///< a folder of another run is refused
};

/// Saves and restores the figures of a training as they are. Does nothing where there is no folder.
class Resume {
 public:
  /// Collective. SIGUSR1 and SIGTERM end the training with a checkpoint from now on.
  Resume(const weir::Communicator& comm, const CheckpointOptions& options);
  /// The same on all ranks; this rank's own. They outlive the training.
  void add(weir::AllreducePlan& plan, std::span<float> parameters, std::span<float> velocity, std::span<double> tally);
  void add(weir::LayerOptimizer& optimizer);

  /// Collective. How far the run had got, in epochs of data, and the curve so far, as text; nothing where it begins.
  struct Progress {
    double epochs = 0;
    std::string curve;
  };
  [[nodiscard]] std::optional<Progress> restore();
  /// Collective, after a step: saves where it is time to. False: the training must stop, and what it needs is saved.
  [[nodiscard]] bool go_on(std::int64_t step, const Progress& progress, bool last);

 private:
  CheckpointOptions options_;
  std::optional<weir::Checkpoint> checkpoint_;
};

}  // namespace fashion_mnist
