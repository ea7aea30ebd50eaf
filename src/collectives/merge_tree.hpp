// merge_tree.hpp: the sum of P sorted sparse vectors, in the order of a binary tree over the ranks: ((0+1)+(2+3))+...
//
// A node is summed as soon as both its children have arrived, in whatever order, so reductions overlap the remaining transfers. The
// order of additions depends only on P, so the sum is bitwise the same on every run and for every choice of region boundaries.
#pragma once

#include <bit>
#include <vector>

#include "base/scratch.hpp"
#include "codec/coo.hpp"
#include "collectives/host_space.hpp"

namespace weir {

template <class T, class Space>
class MergeTree {
 public:
  using Segment = coo::Segment<T>;

  /// Holds `ranks` vectors of `capacity` entries together, in `scratch` if that is not null, otherwise in memory of its own.
  /// `space` and `scratch` must outlive the object.
  MergeTree(Space& space, int ranks, std::int64_t capacity, Scratch* scratch = nullptr)
      : space_(space),
        scratch_(scratch),
        half_bytes_((coo::block_bytes<T>(capacity) + 8 * ranks + coo::block_bytes<T>(select_padding) + 63) / 64 * 64),
        levels_(std::bit_width(static_cast<unsigned>(ranks - 1)) + 1),
        offset_(static_cast<std::size_t>(ranks) + 1),
        prefix_(offset_.size()) {
    if (scratch_ != nullptr) {
      scratch_->reserve(2 * half_bytes_);
    } else {
      own_ = typename Space::template Array<std::byte>(2 * half_bytes_);
      memory_ = own_.data();
    }
    int width = ranks;
    for (int level = 0; level < levels_; ++level) {
      nodes_.emplace_back(static_cast<std::size_t>(width));
      width = (width + 1) / 2;
    }
  }

  /// Forgets everything and lays out leaves of these sizes. Leaves of size 0 count as arrived.
  void begin(const std::uint32_t* counts) {
    const int ranks = static_cast<int>(nodes_[0].size());
    if (scratch_ != nullptr) memory_ = scratch_->data();
    for (auto& level : nodes_) std::fill(level.begin(), level.end(), Node{});
    sums_ = 0;
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

  /// Returns the number of entries of all leaves together.
  [[nodiscard]] std::int64_t total() const { return prefix_.back(); }

  /// Returns memory to receive the message with the vector of `rank`: as much as its entries take in coordinate format. `staging`
  /// is that of landing_bytes().
  [[nodiscard]] Message incoming(int rank, const typename Space::StagingBuffer& staging) {
    return staging.at(half(1), offset_[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] std::int64_t landing_bytes() const { return half_bytes_; }
  /// Returns the memory for the vector of `rank`.
  [[nodiscard]] Segment leaf(int rank) { return segment(0, rank); }
  /// Takes the vector of `rank` from other memory, which is only read. It must stay until the root is complete.
  void lend(int rank, const T* values, const std::uint32_t* indices) {
    Node& node = nodes_[0][static_cast<std::size_t>(rank)];
    node.lent = {const_cast<T*>(values), const_cast<std::uint32_t*>(indices), node.count};
  }

  /// Records that the leaf of `rank` is filled, and sums every node that is now complete.
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

  /// Returns the sum, once every leaf has arrived.
  [[nodiscard]] Segment root() { return segment(levels_ - 1, 0); }
  /// Returns the root's memory, for messages once its entries are no longer needed.
  [[nodiscard]] Message spent_root(const typename Space::StagingBuffer& staging) {
    return staging.at(reinterpret_cast<std::byte*>(root().values), 0);
  }
  /// Returns memory that the root does not use, for root().count entries and padding.
  [[nodiscard]] Segment spare() { return coo::view<T>(half(levels_), prefix_.back() + select_padding); }
  /// Includes memory that it shares with others.
  [[nodiscard]] std::int64_t memory_bytes() const { return 2 * half_bytes_; }

 private:
  struct Node {
    std::int64_t count = 0;
    const std::int64_t* exact = nullptr;
    bool done = false;
    Segment lent{};  // of a leaf in other memory
  };

  [[nodiscard]] std::byte* half(int level) const { return memory_ + (level & 1) * half_bytes_; }
  // Levels alternate between two halves of the memory. A node lies on the range of its leaves and overwrites its grandchildren,
  // which have been merged already. Level 1 overwrites the received messages.
  Segment segment(int level, int index) {
    const auto ranks = offset_.size() - 1;
    const auto first = static_cast<std::size_t>(index) << level;
    const auto last = std::min(ranks, first + (std::size_t{1} << level));
    const Node& node = nodes_[static_cast<std::size_t>(level)][static_cast<std::size_t>(index)];
    if (node.lent.values != nullptr) return node.lent;
    Segment s = coo::view<T>(half(level) + offset_[first], prefix_[last] - prefix_[first]);
    s.count = node.count;
    s.exact = node.exact;
    return s;
  }

  void join(int level, int left, bool alone) {
    const Segment a = segment(level, left), b = alone ? Segment{} : segment(level, left + 1), to = segment(level + 1, left / 2);
    const Segment sum = b.count == 0 ? space_.copy(a, to) : a.count == 0 ? space_.copy(b, to) : space_.merge_add(a, b, to, sums_++);
    Node& node = nodes_[static_cast<std::size_t>(level) + 1][static_cast<std::size_t>(left / 2)];
    node.count = sum.count;
    node.exact = sum.exact;
  }

  Space& space_;
  Scratch* scratch_;
  std::int64_t half_bytes_;
  int levels_;
  std::vector<std::int64_t> offset_, prefix_;  // bytes and entries before each leaf
  std::vector<std::vector<Node>> nodes_;       // per level
  typename Space::template Array<std::byte> own_;
  std::byte* memory_ = nullptr;  // two halves
  int sums_ = 0;
};

}  // namespace weir
