#include "checkpoint/worker.hpp"

#include <csignal>
#include <utility>

namespace weir::checkpoint {

Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Worker::begin(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  if (!thread_.joinable()) {
    // Leave signals to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      work_ = nullptr;
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  wake_.notify_one();
}

bool Worker::reached() {
  const std::lock_guard lock(mutex_);
  return work_ == nullptr;
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return ends_ || work_ != nullptr; });
    if (work_ == nullptr) return;
    lock.unlock();
    const detail::Outcome outcome = detail::outcome_of([&] { work_(); });
    lock.lock();
    outcome_ = outcome;
    work_ = nullptr;
  }
}

}  // namespace weir::checkpoint
