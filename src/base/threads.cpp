#include "base/threads.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <oneapi/tbb/version.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace weir {
namespace {

/// fork() leaves none of the pool's threads in the child, and perhaps locks of the pool that nobody will open.
std::atomic<bool> forked = false;

/// Where the workers of a pool stay. A worker that wakes on the caller's core waits for what it was woken to share, and systems
/// like to wake it there: so it is kept off before that.
class Places final : public tbb::task_scheduler_observer {
 public:
  Places(tbb::task_arena& arena, std::vector<std::vector<int>> cores)
      : task_scheduler_observer(arena), cores_(std::move(cores)), workers_(cores_.size()) {
    for (std::size_t place = 0; place < cores_.size(); ++place) workers_[place].core = place;
    if (!cores_.empty()) observe(true);
  }
  ~Places() override {
    if (!cores_.empty()) observe(false);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  /// The calling thread is about to share a loop. Place 0 is the caller's.
  void leave_room_for_caller() {
    if (cores_.empty()) return;
    const int here = sched_getcpu();
    if (here == last_.exchange(here, std::memory_order_relaxed)) return;
    const std::scoped_lock lock(mutex_);
    for (Worker& worker : workers_) {
      const std::vector<int>& core = cores_[worker.core];
      if (std::find(core.begin(), core.end(), here) == core.end()) continue;
      std::swap(worker.core, workers_[0].core);
      bind(worker);
      return;
    }
  }

 private:
  struct Worker {
    std::size_t core = 0;
    pid_t thread = 0;  // 0: none yet
  };

  void on_scheduler_entry(bool is_worker) override {
    const auto place = static_cast<std::size_t>(std::max(0, tbb::this_task_arena::current_thread_index()));
    if (!is_worker || place == 0 || place >= workers_.size()) return;
    const std::scoped_lock lock(mutex_);
    workers_[place].thread = gettid();
    bind(workers_[place]);
  }
  /// Where the system refuses, the worker runs elsewhere: slower, not wrong.
  void bind(const Worker& worker) const {
    if (worker.thread == 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cores_[worker.core]) {
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    }
    static_cast<void>(sched_setaffinity(worker.thread, sizeof set, &set));
  }

  std::vector<std::vector<int>> cores_;
  std::mutex mutex_;
  std::vector<Worker> workers_;  // by their places in the arena
  std::atomic<int> last_ = -1;   // where the caller was
};

}  // namespace

struct Threads::Pool {
  Pool(int count, std::vector<std::vector<int>> cores)
      : arena(std::min(count, tbb::info::default_concurrency())), places(arena, std::move(cores)) {
    static const int watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });
    static_cast<void>(watched);
  }
  tbb::task_arena arena;
  Places places;
};

Threads::Threads(int count, std::vector<std::vector<int>> cores)
    : count_(count), pool_(count > 1 ? std::make_shared<Pool>(count, std::move(cores)) : nullptr) {}

void Threads::run(int parts, void (*call)(const void*, int), const void* body) const {
  if (!pool_ || forked.load(std::memory_order_relaxed)) {
    for (int part = 0; part < parts; ++part) call(body, part);
    return;
  }
  // Static: a part goes to the same thread each time, which has touched its memory first and may have it in its caches.
  pool_->places.leave_room_for_caller();
  pool_->arena.execute([=] {
    const auto each = [=](const tbb::blocked_range<int>& range) {
      for (int part = range.begin(); part < range.end(); ++part) call(body, part);
    };
    tbb::parallel_for(tbb::blocked_range<int>(0, parts), each, tbb::static_partitioner());
  });
}

const char* threads_version() { return "oneTBB " TBB_VERSION_STRING; }

}  // namespace weir
