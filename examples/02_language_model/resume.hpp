// resume.hpp: saves checkpoints of a training and restores them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <weir/checkpoint.hpp>

namespace language_model {

/// Says where to save, and how often.
struct CheckpointOptions {
  std::string folder;        ///< if empty, nothing is saved
  std::int64_t every = 100;  ///< steps between two checkpoints
};

/// Saves and restores one scheme's training. Does nothing without a folder.
class Resume {
 public:
  /// Collective. From now on SIGUSR1 and SIGTERM end the training with a checkpoint. `scheme` names its own folder.
  Resume(const weir::Communicator& comm, const CheckpointOptions& options, std::string_view scheme);
  /// Returns the checkpoint, to which the parts of the model add themselves, or null if nothing is saved.
  [[nodiscard]] weir::Checkpoint* checkpoint() { return checkpoint_ ? &*checkpoint_ : nullptr; }

  /// Collective. Restores the newest checkpoint. Returns the number of steps done, or 0 if there is no checkpoint. Sets `curve` to
  /// the one that go_on() was given.
  [[nodiscard]] std::int64_t restore(std::string& curve);
  /// Collective. Called after each step; if a checkpoint is due, calls drain() to leave nothing in flight, and saves. Returns false
  /// if the training must stop; it is saved then.
  [[nodiscard]] bool go_on(std::int64_t step, bool last, const std::string& curve, const std::function<void()>& drain);

 private:
  CheckpointOptions options_;
  std::optional<weir::Checkpoint> checkpoint_;
};

}  // namespace language_model
