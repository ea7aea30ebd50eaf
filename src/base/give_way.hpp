// give_way.hpp: how a thread that waits gives its core to others.
#pragma once

#include <atomic>
#include <chrono>

namespace weir {

/// Decides whether threads that wait yield or sleep. If other threads compute on its core, a thread that yields waits for time
/// slices (milliseconds) each time; one that sleeps gets the core when it wakes. Thread-safe: threads may share one object and what
/// it has learnt.
class Yielding {
 public:
  /// `slow_in_a_row`: the number of consecutive slow yields that mean that others compute on this core. A yield is slow if it took
  /// longer than `slow`: threads that only wait give the core back sooner.
  constexpr explicit Yielding(int slow_in_a_row, std::chrono::microseconds slow = std::chrono::microseconds(500))
      : slow_in_a_row_(slow_in_a_row), slow_yield_(slow) {}

  /// Yields and returns true; or returns false, and the caller should sleep.
  bool yield() noexcept;
  /// Returns whether the next call of yield() yields, and counts that call. After enough consecutive slow yields, the next 100
  /// calls do not yield. If the yield after them is slow again, the next 200 calls do not, and so on up to 6,400.
  [[nodiscard]] bool should_yield() noexcept;
  /// Records how long a yield took.
  void note(std::chrono::nanoseconds took) noexcept;

 private:
  static constexpr int shortest_pause = 100, longest_pause = 6400;  // calls without a yield

  int slow_in_a_row_;
  std::chrono::microseconds slow_yield_;
  std::atomic<int> slow_ = 0;  // yields, one after another
  std::atomic<int> pause_ = shortest_pause;
  std::atomic<int> calls_left_ = 0;  // of a pause
};

/// Waits for some tens of cycles, in a loop that expects another core to write to memory soon.
inline void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Yields, or sleeps for the system's shortest time (some 50 us) if other threads compute on this core. Thread-safe.
void give_way() noexcept;

}  // namespace weir
