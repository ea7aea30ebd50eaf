#include "resume.hpp"

#include <csignal>

namespace fashion_mnist {

Resume::Resume(const weir::Communicator& comm, const CheckpointOptions& options) : options_(options) {
  if (options.folder.empty()) return;
  checkpoint_.emplace(comm, weir::CheckpointConfig{.folder = options.folder, .run = options.run, .name = "training"});
  for (const int signal : {SIGUSR1, SIGTERM}) weir::Checkpoint::catch_signal(signal);
}

void Resume::add(weir::AllreducePlan& plan, std::span<float> parameters, std::span<float> velocity, std::span<double> tally) {
  if (!checkpoint_) return;
  checkpoint_->add("gradient", plan);
  checkpoint_->add_replicated("parameters", parameters);
  // With more ranks than before, the new ones begin without momentum. With fewer, the momentum of the missing ranks is lost.
  checkpoint_->add_local("velocity", velocity);
  checkpoint_->add_local("tally", tally);
}

void Resume::add(weir::LayerOptimizer& optimizer) {
  if (checkpoint_) checkpoint_->add("optimizer", optimizer);
}

std::optional<Resume::Progress> Resume::restore() {
  if (!checkpoint_ || !checkpoint_->restore()) return {};
  return Progress{checkpoint_->real("epochs"), checkpoint_->text("curve")};
}

bool Resume::go_on(std::int64_t step, const Progress& progress, bool last) {
  if (!checkpoint_) return true;
  const bool stop = checkpoint_->stop_requested() && !last;
  if (!stop && !last && step % options_.every != 0) return true;
  checkpoint_->set("epochs", progress.epochs);
  checkpoint_->set("curve", progress.curve);
  weir::Operation save = checkpoint_->save(step);
  if (stop || last) save.wait();
  return !stop;
}

}  // namespace fashion_mnist
