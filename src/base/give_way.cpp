#include "base/give_way.hpp"

#include <sched.h>
#include <time.h>

#include <chrono>

namespace weir {
namespace {

// Threads that only wait hand the core on within microseconds.
constexpr auto shortest_slice = std::chrono::microseconds(500);
constexpr int calls_without_yield = 100;
thread_local int calls_left = 0;  // without a yield

}  // namespace

bool yield_core() noexcept {
  if (calls_left > 0) {
    --calls_left;
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  sched_yield();
  if (std::chrono::steady_clock::now() - begin > shortest_slice) calls_left = calls_without_yield;
  return calls_left == 0;
}

void give_way() noexcept {
  if (yield_core()) return;
  const timespec shortest{0, 1};
  nanosleep(&shortest, nullptr);
}

}  // namespace weir
