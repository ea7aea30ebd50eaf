// cores.hpp: the cores that ranks may use, and which of them is free for a thread beside a rank's own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weir {

class Topology;

/// Cores of one node, by hwloc's logical numbers, which mean the same on every rank of the node. Plain bytes. Empty: not known.
class CoreSet {
 public:
  static constexpr int most = 1024;

  void insert(int core) { words_[word(core)] |= bit(core); }
  void insert(const CoreSet& other);
  [[nodiscard]] bool contains(int core) const { return (words_[word(core)] & bit(core)) != 0; }
  [[nodiscard]] int count() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return count() == 0; }
  [[nodiscard]] bool overlaps(const CoreSet& other) const noexcept;
  /// The core that has `above` others of the set above it.
  [[nodiscard]] int from_above(int above) const noexcept;
  [[nodiscard]] bool operator==(const CoreSet&) const = default;

 private:
  static std::size_t word(int core) { return static_cast<std::size_t>(core) / 64; }
  static std::uint64_t bit(int core) { return std::uint64_t{1} << (core % 64); }
  std::array<std::uint64_t, most / 64> words_{};
};

/// Where a rank's progress thread goes.
struct FreeCore {
  int core = -1;      ///< -1: none is free
  std::string why;    ///< then
  bool first = true;  ///< of the ranks that this holds for: one of them says it
};

/// Pure; from what all ranks know of each other, so that no two ranks of a node get the same core. A core is free where the ranks
/// that share a set of cores have two or more each: the uppermost is the first rank's, the next one below the second's.
[[nodiscard]] FreeCore free_core(const Topology& topology, int rank);

/// How many cores the rank has for itself: an equal share of those that ranks of its node share, less the ones of progress threads,
/// if `progress_threads`. No more than its share of a control group's quota. At least 1, and that where it is not known, or ranks
/// share some of their cores, not all. Pure.
[[nodiscard]] int own_cores(const Topology& topology, int rank, bool progress_threads);

/// The most ranks that any node has per core that its ranks may use, rounded up. 1 where that is not known. Pure.
[[nodiscard]] int ranks_per_core(const Topology& topology);

/// The numbers that the system gives the processors of each core that this process may use. Empty: not known. Takes milliseconds.
[[nodiscard]] std::vector<std::vector<int>> processors_by_core();

/// From now on the calling thread runs on that core alone. False: the system refuses.
[[nodiscard]] bool bind_this_thread(int core);

}  // namespace weir
