// resume.hpp: saves checkpoints of a training and restores them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>
#include <weir/optim.hpp>

namespace fashion_mnist {

/// Says where to save, and how often.
struct CheckpointOptions {
  std::string folder;        ///< if empty, nothing is saved
  std::int64_t every = 100;  ///< steps between two checkpoints
  std::string run;           ///< name of the run; a folder with checkpoints of another run is refused
};

/// Saves a training and restores it unchanged. Does nothing without a folder.
class Resume {
 public:
  /// Collective. From now on SIGUSR1 and SIGTERM end the training with a checkpoint.
  Resume(const weir::Communicator& comm, const CheckpointOptions& options);
  /// Adds what is saved: `parameters` are the same on every rank, `velocity` and `tally` are this rank's own. All must outlive the
  /// training.
  void add(weir::AllreducePlan& plan, std::span<float> parameters, std::span<float> velocity, std::span<double> tally);
  void add(weir::LayerOptimizer& optimizer);

  /// The epochs of data that the run has trained on, and its curve so far as text.
  struct Progress {
    double epochs = 0;
    std::string curve;
  };
  /// Collective. Restores the newest checkpoint and returns its progress. Returns nothing if there is no checkpoint.
  [[nodiscard]] std::optional<Progress> restore();
  /// Collective. Called after each step; saves if a checkpoint is due. Returns false if the training must stop; it is saved then.
  [[nodiscard]] bool go_on(std::int64_t step, const Progress& progress, bool last);

 private:
  CheckpointOptions options_;
  std::optional<weir::Checkpoint> checkpoint_;
};

}  // namespace fashion_mnist
