// Checkpoints of a training: when it saves, and from where it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <weir/checkpoint.hpp>

namespace language_model {

/// Where to save, and how often.
struct CheckpointOptions {
  std::string folder;        ///< empty: nothing is saved
  std::int64_t every = 100;  ///< steps
};

/// Saves and restores one scheme's training. Does nothing where there is no folder.
class Resume {
 public:
  /// Collective. SIGUSR1 and SIGTERM end the training with a checkpoint from now on. `scheme` names a folder of its own.
  Resume(const weir::Communicator& comm, const CheckpointOptions& options, std::string_view scheme);
  /// Where what is trained adds itself to; null: nothing is saved.
  [[nodiscard]] weir::Checkpoint* checkpoint() { return checkpoint_ ? &*checkpoint_ : nullptr; }

  /// Collective. The steps done; 0: the run begins. `curve` becomes what go_on() was given.
  [[nodiscard]] std::int64_t restore(std::string& curve);
  /// Collective, after a step: saves where it is time to, once drain() has left nothing in flight. False: the training must stop,
  /// and what it needs is saved.
  [[nodiscard]] bool go_on(std::int64_t step, bool last, const std::string& curve, const std::function<void()>& drain);

 private:
  CheckpointOptions options_;
  std::optional<weir::Checkpoint> checkpoint_;
};

}  // namespace language_model
