// give_way.hpp: how a thread that waits lets others have its core.
#pragma once

#include <chrono>

namespace weir {

/// Tells a thread that waits whether to yield or to sleep. Where other threads compute on its core, a thread that yields waits for
/// time slices (milliseconds) each time; one that sleeps gets the core when it wakes. Not thread-safe.
class Yielding {
 public:
  /// `slow_in_a_row`: so many slow yields, one after another, mean that others compute on this core.
  constexpr explicit Yielding(int slow_in_a_row) : slow_in_a_row_(slow_in_a_row) {}

  /// Yields, and returns true; or returns false: the caller should sleep.
  bool yield() noexcept;
  /// What yield() goes by. Returns whether the next call should yield: the next 100 should not once enough yields in a row have
  /// each taken over half a millisecond. After these 100, one more slow yield is enough.
  [[nodiscard]] bool should_yield() noexcept;
  /// A yield took so long.
  void note(std::chrono::nanoseconds took) noexcept;

 private:
  int slow_in_a_row_;
  int slow_ = 0;        // yields, one after another
  int calls_left_ = 0;  // without a yield
};

/// Yields, or sleeps for the system's shortest time (some 50 us) if other threads compute on this core. Thread-safe.
void give_way() noexcept;

}  // namespace weir
