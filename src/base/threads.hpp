// threads.hpp: loops that several threads of a rank share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir {

/// A range of the elements of an array.
struct PartRange {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
};

/// Returns part `part` of `parts` of `count` elements. Parts begin at multiples of `multiple` and are equal up to that.
[[nodiscard]] constexpr PartRange part_range(std::int64_t count, std::int64_t multiple, int part, int parts) noexcept {
  const std::int64_t pieces = (count + multiple - 1) / multiple;
  const auto begin = [&](int p) { return std::min(count, pieces * p / parts * multiple); };
  return {begin(part), begin(part + 1)};
}

/// The threads that work for a rank: the calling thread, and others of one pool in the process, which sleep between loops and do
/// not belong to OpenMP. Cheap to copy: copies share them. Thread-safe.
///
/// In a child of fork(), and in builds without TBB, the calling thread does everything.
class Threads {
 public:
  /// Makes no threads besides the caller's own.
  Threads() = default;
  /// `count` is 1 or more, the caller's own included. More threads than cores take turns. `cores` are the numbers that the system
  /// gives the processors of each core, for this process alone: each worker stays on a core that the caller is not on. Empty: the
  /// system puts workers anywhere. Throws std::bad_alloc.
  explicit Threads(int count, std::vector<std::vector<int>> cores = {});

  [[nodiscard]] int count() const noexcept { return count_; }
  /// Returns into how many parts to divide `count` elements, if a part needs `least` elements to pay for waking its thread.
  [[nodiscard]] int parts(std::int64_t count, std::int64_t least) const noexcept {
    return static_cast<int>(std::clamp<std::int64_t>(count / least, 1, count_));
  }

  /// Calls body(part) for 0 <= part < parts, each once, on several threads at a time, and returns when all are done. The work of a
  /// part must not depend on the others. If parts throw, throws what one of them threw.
  template <class Body>
  void run(int parts, const Body& body) const {
    if (parts == 1) return body(0);
    run(
        parts, [](const void* of, int part) { (*static_cast<const Body*>(of))(part); }, &body);
  }
  /// Calls body(range) for parts of `count` elements, as run() does; `multiple` as for part_range().
  template <class Body>
  void run_ranges(std::int64_t count, std::int64_t least, std::int64_t multiple, const Body& body) const {
    const int number = parts(count, least);
    if (number == 1) return body(PartRange{0, count});
    run(number, [&](int part) { body(part_range(count, multiple, part, number)); });
  }

 private:
  struct Pool;
  void run(int parts, void (*call)(const void*, int), const void* body) const;

  int count_ = 1;
  std::shared_ptr<Pool> pool_;  // null: one thread
};

/// Returns the library that provides threads, with its version, or why this build has no threads.
[[nodiscard]] const char* threads_version();

}  // namespace weir
