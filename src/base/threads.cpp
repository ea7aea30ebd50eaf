#include "base/threads.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/version.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

namespace weir {
namespace {

/// fork() leaves none of the pool's threads in the child, and perhaps locks of the pool that nobody will open.
std::atomic<bool> forked = false;

}  // namespace

struct Threads::Pool {
  explicit Pool(int count) : arena(std::min(count, tbb::info::default_concurrency())) {
    static const int watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });
    static_cast<void>(watched);
  }
  tbb::task_arena arena;
};

Threads::Threads(int count) : count_(count), pool_(count > 1 ? std::make_shared<Pool>(count) : nullptr) {}

void Threads::run(int parts, void (*call)(const void*, int), const void* body) const {
  if (!pool_ || forked.load(std::memory_order_relaxed)) {
    for (int part = 0; part < parts; ++part) call(body, part);
    return;
  }
  // Static: a part goes to the same thread each time, which has touched its memory first and may have it in its caches.
  pool_->arena.execute([=] {
    const auto each = [=](const tbb::blocked_range<int>& range) {
      for (int part = range.begin(); part < range.end(); ++part) call(body, part);
    };
    tbb::parallel_for(tbb::blocked_range<int>(0, parts), each, tbb::static_partitioner());
  });
}

const char* threads_version() { return "oneTBB " TBB_VERSION_STRING; }

}  // namespace weir
