#include "base/give_way.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace weir {

bool Yielding::should_yield() noexcept {
  if (calls_left_.load(std::memory_order_relaxed) <= 0) return true;
  calls_left_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Yielding::note(std::chrono::nanoseconds took) noexcept {
  if (took <= slow_yield_) {
    slow_.store(0, std::memory_order_relaxed);
    pause_.store(shortest_pause, std::memory_order_relaxed);
    return;
  }
  const int slow = std::min(slow_.load(std::memory_order_relaxed) + 1, slow_in_a_row_);
  slow_.store(slow, std::memory_order_relaxed);
  if (slow < slow_in_a_row_) return;
  const int pause = pause_.load(std::memory_order_relaxed);
  calls_left_.store(pause, std::memory_order_relaxed);
  pause_.store(std::min(2 * pause, longest_pause), std::memory_order_relaxed);
}

bool Yielding::yield() noexcept {
  if (!should_yield()) return false;
  const auto begin = std::chrono::steady_clock::now();
  sched_yield();
  note(std::chrono::steady_clock::now() - begin);
  return true;
}

void give_way() noexcept {
  // Another rank of the job on this core computes for a while and then waits. Sleeping for its sake would take the core from it at
  // each wake-up. Four slow yields in a row come from another program.
  thread_local Yielding yielding(4);
  if (yielding.yield()) return;
  const timespec shortest{0, 1};
  nanosleep(&shortest, nullptr);
}

}  // namespace weir
