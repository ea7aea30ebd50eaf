// worker.hpp: a thread that does one piece of work at a time while runs continue. It does not call MPI.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/blocked_signals.hpp"
#include "base/completion.hpp"
#include "communicator/outcome.hpp"

namespace weir::checkpoint {

/// The destructor waits until the current work is done.
class Worker final : public Completion {
 public:
  /// Starts `work`. The previous work must have been reached(). outcome() has the error that `work` throws.
  void begin(std::function<void()> work) {
    if (!thread_.joinable()) {
      const BlockedSignals blocked;
      thread_ = std::jthread([this](const std::stop_token& ends) { loop(ends); });
    }
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
    }
    wake_.notify_one();
  }
  [[nodiscard]] bool reached() override {
    const std::lock_guard lock(mutex_);
    return work_ == nullptr;
  }
  /// Returns the outcome. Valid once reached().
  [[nodiscard]] const detail::Outcome& outcome() const { return outcome_; }

 private:
  void loop(const std::stop_token& ends) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, ends, [&] { return work_ != nullptr; })) {
      lock.unlock();
      const detail::Outcome outcome = detail::outcome_of([&] { work_(); });
      lock.lock();
      outcome_ = outcome;
      work_ = nullptr;
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::function<void()> work_;  // null: no work
  detail::Outcome outcome_;
  std::jthread thread_;  // from the first begin()
};

}  // namespace weir::checkpoint
