// merge_tree.hpp: the sum of P sorted sparse vectors, in the order of a binary tree over the ranks: ((0+1)+(2+3))+...
//
// A node is summed as soon as both its children are there, whatever the order of arrival, so reductions overlap the transfers
// that are still under way; and the order of additions depends on nothing but P, so the sum is bitwise the same on every run
// and for every choice of region boundaries.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "base/buffer.hpp"
#include "codec/coo.hpp"
#include "kernels/kernels.hpp"

namespace weir {

template <class T>
class MergeTree {
 public:
  using Segment = coo::Segment<T>;

  /// For `ranks` vectors of `capacity` entries together.
  MergeTree(int ranks, std::int64_t capacity)
      : levels_(std::bit_width(static_cast<unsigned>(ranks - 1)) + 1),
        offset_(static_cast<std::size_t>(ranks) + 1),
        prefix_(offset_.size()) {
    const std::int64_t bytes = coo::block_bytes<T>(capacity) + 8 * ranks + coo::block_bytes<T>(select_padding);
    for (auto& buffer : buffers_) buffer = Buffer<std::byte>(bytes);
    int width = ranks;
    for (int level = 0; level < levels_; ++level) {
      nodes_.emplace_back(static_cast<std::size_t>(width));
      width = (width + 1) / 2;
    }
  }

  /// Forgets everything and lays out leaves of these sizes. Leaves of size 0 count as arrived.
  void begin(const std::uint32_t* counts) {
    const int ranks = static_cast<int>(nodes_[0].size());
    for (auto& level : nodes_) std::fill(level.begin(), level.end(), Node{});
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      offset_[i + 1] = offset_[i] + coo::block_bytes<T>(counts[r]);
      prefix_[i + 1] = prefix_[i] + counts[r];
    }
    for (int r = 0; r < ranks; ++r) {
      nodes_[0][static_cast<std::size_t>(r)].count = counts[r];
    }
    for (int r = 0; r < ranks; ++r) {
      if (counts[r] == 0) arrived(r);
    }
  }

  /// Entries that fit.
  [[nodiscard]] std::int64_t total() const { return prefix_.back(); }

  /// Where the message with the vector of `rank` may be received: as much memory as its entries take in coordinate format.
  [[nodiscard]] std::byte* incoming(int rank) { return buffers_[1].data() + offset_[static_cast<std::size_t>(rank)]; }
  /// Where the vector of `rank` belongs.
  [[nodiscard]] Segment leaf(int rank) { return segment(0, rank); }

  /// The leaf of `rank` is filled: sums every node that is now complete.
  void arrived(int rank) {
    int index = rank;
    for (int level = 0;; ++level) {
      auto& nodes = nodes_[static_cast<std::size_t>(level)];
      nodes[static_cast<std::size_t>(index)].done = true;
      if (level + 1 == levels_) return;
      const int sibling = index ^ 1;
      const bool alone = sibling >= static_cast<int>(nodes.size());
      if (!alone && !nodes[static_cast<std::size_t>(sibling)].done) return;
      join(level, index & ~1, alone);
      index /= 2;
    }
  }

  /// The sum, once every leaf has arrived.
  [[nodiscard]] Segment root() { return segment(levels_ - 1, 0); }
  /// Memory that the root does not use, for root().count entries and padding.
  [[nodiscard]] Segment spare() {
    return coo::view<T>(buffers_[static_cast<std::size_t>(levels_ & 1)].data(), prefix_.back() + select_padding);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return buffers_[0].bytes() + buffers_[1].bytes(); }

 private:
  struct Node {
    std::int64_t count = 0;
    bool done = false;
  };

  // A node lies in the buffer of its level's parity, on the range of its leaves: its grandchildren's, which are spent by then, as
  // are the messages where level 1 lies.
  Segment segment(int level, int index) {
    const auto ranks = offset_.size() - 1;
    const auto first = static_cast<std::size_t>(index) << level;
    const auto last = std::min(ranks, first + (std::size_t{1} << level));
    Segment s = coo::view<T>(buffers_[static_cast<std::size_t>(level & 1)].data() + offset_[first], prefix_[last] - prefix_[first]);
    s.count = nodes_[static_cast<std::size_t>(level)][static_cast<std::size_t>(index)].count;
    return s;
  }

  void join(int level, int left, bool alone) {
    const Segment a = segment(level, left);
    Segment out = segment(level + 1, left / 2);
    if (alone) {
      std::memcpy(out.values, a.values, static_cast<std::size_t>(a.count) * sizeof(T));
      std::memcpy(out.indices, a.indices, static_cast<std::size_t>(a.count) * sizeof(std::uint32_t));
      out.count = a.count;
    } else {
      const Segment b = segment(level, left + 1);
      out.count = kernels::host::merge_add(a.indices, a.values, a.count, b.indices, b.values, b.count, out.indices, out.values);
    }
    nodes_[static_cast<std::size_t>(level) + 1][static_cast<std::size_t>(left / 2)].count = out.count;
  }

  int levels_;
  std::vector<std::int64_t> offset_, prefix_;  // bytes and entries before each leaf
  std::vector<std::vector<Node>> nodes_;       // by level
  Buffer<std::byte> buffers_[2];
};

}  // namespace weir
