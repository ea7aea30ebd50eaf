#include "base/give_way.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>

namespace weir {
namespace {

// Ranks that wait, too, hand the core on within microseconds. One that computes keeps it for a while, and then waits, too: only
// what takes several time slices in a row is none of them.
constexpr auto shortest_slice = std::chrono::microseconds(500);
constexpr int slices_in_a_row = 4;
constexpr int calls_without_yield = 100;

thread_local int slices = 0;      // that the last yields took, one after another
thread_local int calls_left = 0;  // without a yield

}  // namespace

bool yield_core() noexcept {
  if (calls_left > 0) {
    --calls_left;
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  sched_yield();
  const bool slow = std::chrono::steady_clock::now() - begin > shortest_slice;
  slices = slow ? std::min(slices + 1, slices_in_a_row) : 0;
  if (slices < slices_in_a_row) return true;
  calls_left = calls_without_yield;
  return false;
}

void give_way() noexcept {
  if (yield_core()) return;
  const timespec shortest{0, 1};
  nanosleep(&shortest, nullptr);
}

}  // namespace weir
