#include "base/give_way.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace weir {
namespace {

constexpr auto slow_yield = std::chrono::microseconds(500);  // threads that only wait hand the core on sooner
constexpr int calls_without_yield = 100;

}  // namespace

bool Yielding::should_yield() noexcept {
  if (calls_left_ == 0) return true;
  --calls_left_;
  return false;
}

void Yielding::note(std::chrono::nanoseconds took) noexcept {
  slow_ = took > slow_yield ? std::min(slow_ + 1, slow_in_a_row_) : 0;
  if (slow_ == slow_in_a_row_) calls_left_ = calls_without_yield;
}

bool Yielding::yield() noexcept {
  if (!should_yield()) return false;
  const auto begin = std::chrono::steady_clock::now();
  sched_yield();
  note(std::chrono::steady_clock::now() - begin);
  return true;
}

void give_way() noexcept {
  // A rank of the same job computes for a while, too, and then waits; to wake beside it would take the core from it each time. Four
  // slow yields in a row are somebody else's.
  thread_local Yielding yielding(4);
  if (yielding.yield()) return;
  const timespec shortest{0, 1};
  nanosleep(&shortest, nullptr);
}

}  // namespace weir
