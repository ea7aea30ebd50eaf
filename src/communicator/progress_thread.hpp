// progress_thread.hpp: a thread that advances what is in flight while the caller computes (WEIR_PROGRESS_THREAD).
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "async/engine.hpp"
#include "base/at_end.hpp"
#include "base/floating_point.hpp"

namespace weir::detail {

/// Polls the engine aside (Engine::poll_aside) while no other thread is inside and there is something to do; sleeps otherwise.
/// Callers go first: one that wants to enter waits for one poll at most.
class ProgressThread {
 public:
  /// Gives the calling thread the engine and the state of all runs for itself, while it lives, and sets the standard floating-point
  /// mode. May be nested. Null: there is no progress thread.
  class Inside {
   public:
    explicit Inside(ProgressThread* thread) : thread_(thread) {
      if (thread_ != nullptr) thread_->enter();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
      if (thread_ != nullptr) thread_->leave();
    }

   private:
    ProgressThread* thread_;
    StandardFloatingPoint standard_;
  };

  /// Starts the thread. `core` -1: the system chooses where it runs. It then always sleeps a little between polls that move
  /// nothing, so that it takes no core from threads that compute. Throws std::system_error.
  ProgressThread(Engine& engine, int core, End end);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// No thread may be inside.
  ~ProgressThread();

 private:
  void enter();
  void leave() noexcept;
  void stop() noexcept;
  void loop(int core);
  bool poll() noexcept;
  void idle() const noexcept;

  Engine& engine_;
  const bool pinned_, shares_library_;
  std::recursive_mutex door_;  // held by the thread that polls, or is inside
  std::condition_variable_any wake_;
  int depth_ = 0;                   // nested entries of the thread inside
  bool sleeps_ = false;             // until a thread has been inside
  std::atomic<int> wanting_ = 0;    // threads that want to enter
  std::atomic<bool> ends_ = false;  // no further poll begins
  std::atomic<bool> polls_ = false;
  std::optional<AtEnd> at_end_;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace weir::detail
