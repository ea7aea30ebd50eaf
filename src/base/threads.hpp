// threads.hpp: loops that several threads of a rank share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir {

/// Part of the elements of an array.
struct PartRange {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
};

/// Number `part` of `parts` of `count` elements, which begin at multiples of `multiple`; equal up to that.
[[nodiscard]] constexpr PartRange part_range(std::int64_t count, std::int64_t multiple, int part, int parts) noexcept {
  const std::int64_t pieces = (count + multiple - 1) / multiple;
  const auto begin = [&](int p) { return std::min(count, pieces * p / parts * multiple); };
  return {begin(part), begin(part + 1)};
}

/// The threads that work for a rank: the one that calls, and others of a pool that the process has once, which sleep between loops
/// and are no part of anybody's OpenMP. Cheap to copy: copies share them. Thread-safe.
///
/// In a child that fork() has left, and in builds without TBB, the calling thread does all by itself.
class Threads {
 public:
  /// None besides the caller's own.
  Threads() = default;
  /// `count` from 1 up, the caller's own included. More than there are cores take turns. `cores` are the numbers that the system
  /// gives the processors of each core, for this process alone: each worker stays on one that the caller is not on. Empty: the
  /// system puts workers anywhere. Throws std::bad_alloc.
  explicit Threads(int count, std::vector<std::vector<int>> cores = {});

  [[nodiscard]] int count() const noexcept { return count_; }
  /// Into how many parts to divide `count` elements, of which a thread's part should be `least` or more to pay for waking it.
  [[nodiscard]] int parts(std::int64_t count, std::int64_t least) const noexcept {
    return static_cast<int>(std::clamp<std::int64_t>(count / least, 1, count_));
  }

  /// Calls body(part) for 0 <= part < parts, each once, on several threads at a time, and returns when all is done. What each part
  /// does must not depend on the others. Throws what one of them throws.
  template <class Body>
  void run(int parts, const Body& body) const {
    if (parts == 1) return body(0);
    run(
        parts, [](const void* of, int part) { (*static_cast<const Body*>(of))(part); }, &body);
  }
  /// Calls body(range) for parts of `count` elements as above; `multiple` as for part_range.
  template <class Body>
  void run_ranges(std::int64_t count, std::int64_t least, std::int64_t multiple, const Body& body) const {
    const int number = parts(count, least);
    run(number, [&](int part) { body(part_range(count, multiple, part, number)); });
  }

 private:
  struct Pool;
  void run(int parts, void (*call)(const void*, int), const void* body) const;

  int count_ = 1;
  std::shared_ptr<Pool> pool_;  // null: one thread
};

/// Returns the library that gives threads, with its version, or why this build has no threads.
[[nodiscard]] const char* threads_version();

}  // namespace weir
