#include "base/threads.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <oneapi/tbb/version.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/floating_point.hpp"
#include "base/forks.hpp"

namespace weir {
namespace {

/// Remembers which threads of oneTBB's pool were bound to which cores. They work for all arenas of the process, and get their old
/// masks back when the last user of this object is gone.
class Bindings {
 public:
  static std::shared_ptr<Bindings> of_process() {
    static std::mutex mutex;
    static std::weak_ptr<Bindings> last;
    const std::scoped_lock lock(mutex);
    std::shared_ptr<Bindings> bindings = last.lock();
    if (!bindings) last = bindings = std::make_shared<Bindings>();
    return bindings;
  }
  Bindings() = default;
  ~Bindings() {
    if (forked()) return;
    for (const Bound& bound : bound_) {
      if (stays(bound)) static_cast<void>(sched_setaffinity(bound.thread, sizeof bound.before, &bound.before));
    }
  }
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;

  /// Makes room for this many more threads.
  void expect(std::size_t threads) {
    const std::scoped_lock lock(mutex_);
    bound_.reserve(bound_.size() + threads);
  }
  /// Binds the thread, unless the program has moved it since it was bound. If the system refuses, the thread runs elsewhere:
  /// slower, not wrong.
  void bind(pid_t thread, const std::vector<int>& core) {
    cpu_set_t here;
    CPU_ZERO(&here);
    for (const int cpu : core) {
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &here);
    }
    const std::scoped_lock lock(mutex_);
    const auto known = std::find_if(bound_.begin(), bound_.end(), [=](const Bound& bound) { return bound.thread == thread; });
    if (known != bound_.end()) {
      if (stays(*known) && sched_setaffinity(thread, sizeof here, &here) == 0) known->here = here;
      return;
    }
    Bound bound{thread, {}, here};
    if (bound_.size() < bound_.capacity() && sched_getaffinity(thread, sizeof bound.before, &bound.before) == 0 &&
        sched_setaffinity(thread, sizeof here, &here) == 0)
      bound_.push_back(bound);
  }

 private:
  struct Bound {
    pid_t thread;
    cpu_set_t before, here;
  };
  /// Returns whether the thread is still where it was put.
  [[nodiscard]] static bool stays(const Bound& bound) {
    cpu_set_t now;
    return sched_getaffinity(bound.thread, sizeof now, &now) == 0 && CPU_EQUAL(&now, &bound.here);
  }

  std::mutex mutex_;
  std::vector<Bound> bound_;
};

/// The cores of a pool's workers. A worker that wakes on the caller's core waits for the caller, whose loop it was woken to share,
/// and systems often wake it there. So it is moved to another core before that.
class Places final : public tbb::task_scheduler_observer {
 public:
  Places(tbb::task_arena& arena, std::vector<std::vector<int>> cores)
      : task_scheduler_observer(arena), cores_(std::move(cores)), workers_(cores_.size()) {
    for (std::size_t place = 0; place < cores_.size(); ++place) workers_[place].core = place;
    if (cores_.empty()) return;
    bindings_ = Bindings::of_process();
    bindings_->expect(cores_.size());
    observe(true);
  }
  ~Places() override {
    if (!cores_.empty()) observe(false);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  /// Moves a worker off the calling thread's core, before that thread shares a loop. Place 0 is the caller's.
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
    pid_t thread = 0;  // 0: there is no thread yet
  };

  void on_scheduler_entry(bool is_worker) override {
    const auto place = static_cast<std::size_t>(std::max(0, tbb::this_task_arena::current_thread_index()));
    if (!is_worker || place == 0 || place >= workers_.size()) return;
    const std::scoped_lock lock(mutex_);
    workers_[place].thread = gettid();
    bind(workers_[place]);
  }
  void bind(const Worker& worker) const {
    if (worker.thread != 0) bindings_->bind(worker.thread, cores_[worker.core]);
  }

  std::vector<std::vector<int>> cores_;
  std::mutex mutex_;
  std::vector<Worker> workers_;  // index: place in the arena
  std::atomic<int> last_ = -1;   // where the caller was
  std::shared_ptr<Bindings> bindings_;
};

}  // namespace

struct Threads::Pool {
  Pool(int count, std::vector<std::vector<int>> cores)
      : arena(std::min(count, tbb::info::default_concurrency())), places(arena, std::move(cores)) {
    watch_forks();
  }
  tbb::task_arena arena;
  Places places;
};

Threads::Threads(int count, std::vector<std::vector<int>> cores)
    : count_(count), pool_(count > 1 ? std::make_shared<Pool>(count, std::move(cores)) : nullptr) {}

void Threads::run(int parts, void (*call)(const void*, int), const void* body) const {
  // A child of fork() has none of the pool's threads, and may have locks of the pool that no thread will open.
  if (!pool_ || forked()) {
    for (int part = 0; part < parts; ++part) call(body, part);
    return;
  }
  // Static: a part goes to the same thread each time, which touched its memory first and may have it in its caches.
  pool_->places.leave_room_for_caller();
  pool_->arena.execute([=] {
    const auto each = [=](const tbb::blocked_range<int>& range) {
      const StandardFloatingPoint standard;
      for (int part = range.begin(); part < range.end(); ++part) call(body, part);
    };
    tbb::parallel_for(tbb::blocked_range<int>(0, parts), each, tbb::static_partitioner());
  });
}

const char* threads_version() { return "oneTBB " TBB_VERSION_STRING; }

}  // namespace weir
