// worker.hpp: a thread that does one piece of work at a time while runs continue. It does not call MPI.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/completion.hpp"
#include "communicator/outcome.hpp"

namespace weir::checkpoint {

class Worker final : public Completion {
 public:
  Worker() = default;
  /// Waits until the current work is done.
  ~Worker() override;
  /// Starts `work`. The previous work must have been reached(). outcome() has the error that `work` throws.
  void begin(std::function<void()> work);
  [[nodiscard]] bool reached() override;
  /// Returns the outcome. Valid once reached().
  [[nodiscard]] const detail::Outcome& outcome() const { return outcome_; }

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> work_;  // null: no work
  bool ends_ = false;
  detail::Outcome outcome_;
  std::thread thread_;  // from the first begin()
};

}  // namespace weir::checkpoint
