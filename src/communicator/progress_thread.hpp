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

/// Polls the engine aside (Engine::poll_aside) while nobody is inside and there is something to do; sleeps otherwise. Callers go
/// first: one that wants to come in waits for one poll at most.
class ProgressThread {
 public:
  /// While it lives, the calling thread has the engine, and all that runs have, for itself, and computes as everybody does. May be
  /// nested. Null: there is no progress thread.
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

  /// `core` -1: wherever the system puts it; it then always sleeps a little between polls that move nothing, so that it takes no
  /// core from those that compute. Throws std::system_error.
  ProgressThread(Engine& engine, int core, End end);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// Nobody is inside.
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
  std::recursive_mutex door_;  // of the thread that polls, or is inside
  std::condition_variable_any wake_;
  int depth_ = 0;                   // of those inside
  bool sleeps_ = false;             // until somebody has been inside
  std::atomic<int> wanting_ = 0;    // to come in
  std::atomic<bool> ends_ = false;  // no poll begins any more
  std::atomic<bool> polls_ = false;
  std::optional<AtEnd> at_end_;
  std::thread thread_;  // last
};

}  // namespace weir::detail
