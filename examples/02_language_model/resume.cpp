#include "resume.hpp"

#include <csignal>
#include <filesystem>

namespace language_model {

Resume::Resume(const weir::Communicator& comm, const CheckpointOptions& options, std::string_view scheme) : options_(options) {
  if (options.folder.empty()) return;
  std::filesystem::create_directories(options.folder);
  checkpoint_.emplace(comm,
                      weir::CheckpointConfig{.folder = options.folder + "/" + std::string(scheme), .run = std::string(scheme)});
  for (const int signal : {SIGUSR1, SIGTERM}) weir::Checkpoint::catch_signal(signal);
}

std::int64_t Resume::restore(std::string& curve) {
  if (!checkpoint_) return 0;
  const auto step = checkpoint_->restore();
  if (step) curve = checkpoint_->text("curve");
  return step.value_or(0);
}

bool Resume::go_on(std::int64_t step, bool last, const std::string& curve, const std::function<void()>& drain) {
  if (!checkpoint_) return true;
  const bool stop = checkpoint_->stop_requested() && !last;
  if (!stop && !last && step % options_.every != 0) return true;
  drain();
  checkpoint_->set("curve", curve);
  weir::Operation save = checkpoint_->save(step);
  if (stop || last) save.wait();
  return !stop;
}

}  // namespace language_model
