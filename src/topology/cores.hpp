// cores.hpp: the cores that ranks may use, and which of them is free for a thread besides a rank's own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weir {

class Topology;

/// Cores of one node, by hwloc's logical numbers, which mean the same on every rank of the node. Plain bytes. Empty: unknown.
class CoreSet {
 public:
  static constexpr int most = 1024;

  void insert(int core) { words_[word(core)] |= bit(core); }
  void insert(const CoreSet& other);
  [[nodiscard]] bool contains(int core) const { return (words_[word(core)] & bit(core)) != 0; }
  [[nodiscard]] int count() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return count() == 0; }
  [[nodiscard]] bool overlaps(const CoreSet& other) const noexcept;
  /// Returns the core that has `above` others of the set above it.
  [[nodiscard]] int from_above(int above) const noexcept;
  [[nodiscard]] bool operator==(const CoreSet&) const = default;

 private:
  static std::size_t word(int core) { return static_cast<std::size_t>(core) / 64; }
  static std::uint64_t bit(int core) { return std::uint64_t{1} << (core % 64); }
  std::array<std::uint64_t, most / 64> words_{};
};

/// Where a rank's progress thread runs.
struct FreeCore {
  int core = -1;      ///< -1: no core is free
  std::string why;    ///< if no core is free
  bool first = true;  ///< true on the first of the ranks that this holds for: it alone warns
};

/// Finds a core for a rank's progress thread. Pure: depends only on what all ranks know, so that no two ranks of a node get the
/// same core. A core is free if the ranks that share a set of cores have two or more each: the uppermost goes to the first rank,
/// the next one below to the second.
[[nodiscard]] FreeCore free_core(const Topology& topology, int rank);

/// Returns how many cores the rank has for itself: an equal share of those that ranks of its node share, less those of progress
/// threads if `progress_threads`, and at most its share of a control group's quota. At least 1; 1 also if cores are unknown, or
/// ranks share only some of their cores. Pure.
[[nodiscard]] int own_cores(const Topology& topology, int rank, bool progress_threads);

/// Returns the number of ranks per core, rounded up, on the node on which it is largest. Counts cores that the node's ranks may
/// use; 1 if these are unknown. Pure.
[[nodiscard]] int ranks_per_core(const Topology& topology);

/// Returns the numbers that the system gives the processors of each core that this process may use; empty if unknown. Takes
/// milliseconds.
[[nodiscard]] std::vector<std::vector<int>> processors_by_core();

/// Makes the calling thread run on that core alone from now on. Returns false if the system refuses.
[[nodiscard]] bool bind_this_thread(int core);

}  // namespace weir
