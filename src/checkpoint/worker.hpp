// worker.hpp: a thread that does one thing after the other while runs go on. It makes no calls of MPI.
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
  /// Waits for what is being done.
  ~Worker() override;
  /// One at a time: the last has been reached(). What `work` throws is in outcome().
  void begin(std::function<void()> work);
  [[nodiscard]] bool reached() override;
  /// Once reached().
  [[nodiscard]] const detail::Outcome& outcome() const { return outcome_; }

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> work_;  // null: nothing to do
  bool ends_ = false;
  detail::Outcome outcome_;
  std::thread thread_;  // from the first begin()
};

}  // namespace weir::checkpoint
