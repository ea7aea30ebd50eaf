#include "topology/cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "topology/topology.hpp"

namespace weir {

int CoreSet::count() const noexcept {
  int count = 0;
  for (const std::uint64_t word : words_) count += std::popcount(word);
  return count;
}

void CoreSet::insert(const CoreSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

bool CoreSet::overlaps(const CoreSet& other) const noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

int CoreSet::from_above(int above) const noexcept {
  for (int core = most - 1; core >= 0; --core) {
    if (contains(core) && above-- == 0) return core;
  }
  return -1;
}

FreeCore free_core(const Topology& topology, int rank) {
  const CoreSet& mine = topology.location(rank).cores;
  if (mine.empty()) return {-1, fmt::format("which cores rank {} may use is not known", rank), true};
  int sharing = 0, place = 0;
  for (int peer = 0; peer < topology.size(); ++peer) {
    if (topology.node_of(peer) != topology.node_of(rank)) continue;
    const CoreSet& theirs = topology.location(peer).cores;
    if (theirs.empty()) return {-1, fmt::format("which cores rank {} may use is not known", peer), peer == rank};
    if (!theirs.overlaps(mine)) continue;
    if (theirs != mine)
      return {-1, fmt::format("ranks {} and {} share some of their cores, not all: none is known to be free", rank, peer), true};
    if (peer < rank) ++place;
    ++sharing;
  }
  if (mine.count() >= 2 * sharing) return {mine.from_above(place), "", place == 0};
  return {-1,
          fmt::format("{} rank{} share{} {} core{}: none is free", sharing, sharing == 1 ? "" : "s", sharing == 1 ? "s" : "",
                      mine.count(), mine.count() == 1 ? "" : "s"),
          place == 0};
}

namespace {

/// Returns how many whole processors the rank's share of its quota is.
int quota_share(const Topology& topology, int rank) {
  const CpuQuota& mine = topology.location(rank).quota;
  if (mine.processors <= 0) return CoreSet::most;
  int sharing = 0;
  for (int peer = 0; peer < topology.size(); ++peer)
    sharing += topology.node_of(peer) == topology.node_of(rank) && topology.location(peer).quota.group == mine.group ? 1 : 0;
  return static_cast<int>(std::min(mine.processors / sharing, static_cast<double>(CoreSet::most)));
}

}  // namespace

int own_cores(const Topology& topology, int rank, bool progress_threads) {
  const CoreSet& mine = topology.location(rank).cores;
  int sharing = 0;
  for (int peer = 0; peer < topology.size(); ++peer) {
    if (topology.node_of(peer) != topology.node_of(rank)) continue;
    const CoreSet& theirs = topology.location(peer).cores;
    if (theirs.empty() || (theirs.overlaps(mine) && theirs != mine)) return 1;
    sharing += theirs == mine;
  }
  if (sharing == 0) return 1;
  const int each = std::min(mine.count() / sharing, quota_share(topology, rank));
  return std::max(1, progress_threads && each > 1 ? std::min(each, (mine.count() - sharing) / sharing) : each);
}

int ranks_per_core(const Topology& topology) {
  struct Node {
    CoreSet cores;
    int ranks = 0;
    bool known = true;
  };
  std::vector<Node> nodes(static_cast<std::size_t>(topology.node_count()));
  for (int rank = 0; rank < topology.size(); ++rank) {
    Node& node = nodes[static_cast<std::size_t>(topology.node_of(rank))];
    const CoreSet& cores = topology.location(rank).cores;
    node.cores.insert(cores);
    node.known = node.known && !cores.empty();
    ++node.ranks;
  }
  int most = 1;
  for (const Node& node : nodes) {
    if (node.known) most = std::max(most, (node.ranks + node.cores.count() - 1) / node.cores.count());
  }
  return most;
}

}  // namespace weir
