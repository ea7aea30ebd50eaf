// node_lists.hpp: the entries that the ranks of a node show each other in shared memory, instead of sending them. Here, ranks are
// numbered in the node.
//
// A rank that starts its next run has ended the last one, and each run waits until all ranks have started it. So a rank writes its
// entries to two places by turns: others may still read those of the last run, but none reads those of the run before. The sums of
// parts are read by runs that have ended on all ranks when the next ones are written, so they have one place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "collectives/allgatherv.hpp"
#include "collectives/node_cards.hpp"
#include "sums/entries.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {

/// Copies indices to integers of another size, which have room for them. Loops of a known length are vectorised.
template <class From, class To>
void convert_indices(const From* from, std::int64_t count, To* to) {
  constexpr std::int64_t chunk = 16;
  std::int64_t i = 0;
  for (; i + chunk <= count; i += chunk) {
    for (std::int64_t j = i; j < i + chunk; ++j) to[j] = static_cast<To>(from[j]);
  }
  for (; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

/// A rank's entries in shared memory. Those of a short list have indices of 32 bits, so that fewer lines go from cache to cache.
template <class T>
struct ShownList {
  [[nodiscard]] std::int64_t lower_bound(std::int64_t index) const {
    const auto find = [&](const auto* first) { return std::lower_bound(first, first + count, index) - first; };
    return is_short() ? find(short_indices) : find(indices);
  }
  [[nodiscard]] bool is_short() const { return indices == nullptr; }
  /// Returns the entries [begin, end) of a list that is not short.
  [[nodiscard]] Entries<T> part(std::int64_t begin, std::int64_t end) const {
    return Entries<T>{indices, values, count}.part(begin, end);
  }
  /// Copies the entries [begin, end).
  void copy(std::int64_t begin, std::int64_t end, const EntryPlace<T>& to) const {
    if (!is_short()) return to.write(part(begin, end));
    convert_indices(short_indices + begin, end - begin, to.indices);
    std::copy_n(values + begin, end - begin, to.values);
  }

  const std::int64_t* indices = nullptr;  ///< null: the list is short
  const std::uint32_t* short_indices = nullptr;
  const T* values = nullptr;
  std::int64_t count = 0;
};

template <class T>
class NodeLists {
 public:
  /// The most entries of a short list. To write a longer one a second time, as it is shown, takes longer than the lines that it
  /// saves, unless cores are far from each other.
  static constexpr std::int64_t most_short = 512;

  /// What a rank says of the sum of its part.
  struct PartCard {
    std::int64_t entries = 0;
    std::int64_t failed = 0;
  };

  /// Returns the bytes of memory that each rank needs for lists of at most `capacity` entries, and cards of `card` bytes. The node
  /// has `ranks` ranks.
  [[nodiscard]] static constexpr std::int64_t memory_for(std::int64_t capacity, int ranks, std::int64_t card) {
    return NodeCards::memory_for(card) + NodeCards::memory_for(sizeof(PartCard)) + 2 * list_bytes(capacity) +
           list_bytes(part_capacity(capacity, ranks));
  }

  /// `memory` has memory_for() bytes of each rank. The sum has `elements`. Make it on all ranks before any of them uses it.
  NodeLists(const SharedMemory& memory, std::int64_t capacity, std::int64_t elements, const Topology& topology, std::int64_t card)
      : cards(memory, card, topology),
        part_cards(memory.from(NodeCards::memory_for(card)), sizeof(PartCard), topology),
        lists_(memory.from(NodeCards::memory_for(card) + NodeCards::memory_for(sizeof(PartCard)))),
        capacity_(capacity),
        most_short_(elements <= std::int64_t{1} << 32 ? most_short : -1),
        part_capacity_(part_capacity(capacity, static_cast<int>(topology.node_peers().size()))),
        rank_(topology.local_rank(topology.rank())) {
    cards.clear();
    part_cards.clear();
  }

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] int rank() const { return rank_; }  ///< this rank

  /// Returns whether the caller writes a list of `count` entries to next() itself. show() copies shorter ones there.
  [[nodiscard]] bool goes_to_next(std::int64_t count) const { return count > most_short_ && count <= capacity_; }
  /// Returns where this rank's entries for its next run go, of which there may be capacity().
  [[nodiscard]] EntryPlace<T> next() const { return place(lists_.of(rank_) + (1 - shown_) * list_bytes(capacity_), capacity_); }
  /// Shows this rank's entries for the run that starts. They are copied to next() unless they are there. Call it in each run.
  void show(const Entries<T>& own) {
    const EntryPlace<T> to = next();
    if (own.count <= most_short_) {
      convert_indices(own.indices, own.count, reinterpret_cast<std::uint32_t*>(to.indices));
      std::copy_n(own.values, own.count, to.values);
    } else if (own.indices != to.indices) {
      to.write(own);
    }
    shown_ = 1 - shown_;
  }
  /// Returns the entries of a rank in this run, once all have published their cards.
  [[nodiscard]] ShownList<T> shown(int rank, std::int64_t count) const {
    const EntryPlace<T> list = place(lists_.of(rank) + shown_ * list_bytes(capacity_), capacity_);
    if (count > most_short_) return {list.indices, nullptr, list.values, count};
    return {nullptr, reinterpret_cast<const std::uint32_t*>(list.indices), list.values, count};
  }
  /// Writes the sum of this rank's part.
  void show_part(const Entries<T>& sum) { place(part(rank_), part_capacity_).write(sum); }
  /// Returns the sum of a rank's part, once all have published how many entries theirs have.
  [[nodiscard]] Entries<T> shown_part(int rank) const {
    return at(part(rank), part_capacity_, part_cards.template of<PartCard>(rank).entries);
  }

  /// Returns how many entries of a part are shown at a time, if it may have more than there is room for.
  [[nodiscard]] std::int64_t piece() const { return part_capacity_ / 2; }
  /// Writes piece `number` of the sum of this rank's part, whose indices count from `base`. Ranks may still read the one before.
  void show_piece(std::int64_t number, const Entries<T>& sum, std::int64_t base) {
    const std::int64_t first = std::min(number * piece(), sum.count), count = std::min(piece(), sum.count - first);
    const EntryPlace<T> both = place(part(rank_), part_capacity_);
    std::int64_t* const indices = both.indices + number % 2 * piece();
    for (std::int64_t i = 0; i < count; ++i) indices[i] = base + sum.indices[first + i];
    std::copy_n(sum.values + first, count, both.values + number % 2 * piece());
  }
  /// Returns that piece of a rank's part, which has `entries` altogether, once all have published their cards.
  [[nodiscard]] Entries<T> shown_piece(int rank, std::int64_t number, std::int64_t entries) const {
    const Entries<T> both = at(part(rank), part_capacity_, part_capacity_);
    const std::int64_t begin = number % 2 * piece();
    return both.part(begin, begin + std::clamp<std::int64_t>(entries - number * piece(), 0, piece()));
  }

  NodeCards cards;       ///< what each rank says of its run
  NodeCards part_cards;  ///< PartCard of each rank

 private:
  static constexpr std::int64_t line = 64;
  /// Parts have as many entries as lists have on average, and the other lists' entries with the last index.
  [[nodiscard]] static constexpr std::int64_t part_capacity(std::int64_t capacity, int ranks) { return capacity + ranks + 1; }
  [[nodiscard]] static constexpr std::int64_t index_bytes(std::int64_t capacity) { return (8 * capacity + line - 1) / line * line; }
  [[nodiscard]] static constexpr std::int64_t list_bytes(std::int64_t capacity) {
    return index_bytes(capacity) + (static_cast<std::int64_t>(sizeof(T)) * capacity + line - 1) / line * line;
  }
  [[nodiscard]] std::byte* part(int rank) const { return lists_.of(rank) + 2 * list_bytes(capacity_); }
  [[nodiscard]] static EntryPlace<T> place(std::byte* list, std::int64_t capacity) {
    return {reinterpret_cast<std::int64_t*>(list), reinterpret_cast<T*>(list + index_bytes(capacity))};
  }
  [[nodiscard]] static Entries<T> at(std::byte* list, std::int64_t capacity, std::int64_t count) {
    return place(list, capacity).first(count);
  }

  SharedMemory lists_;
  std::int64_t capacity_, most_short_, part_capacity_;
  int rank_;
  int shown_ = 1;
};

/// Returns the sum of the node's entries with indices in [begin, end), as merge_parts does. `peers`: the ranks of the node.
template <class T>
[[nodiscard]] Entries<T> merge_shown(const SumRun<T>& run, std::span<const int> peers, std::int64_t begin, std::int64_t end) {
  // A list of another rank that is not long is copied first: line after line from another core's cache, a merge would wait for
  // each.
  constexpr std::int64_t entries_to_copy = 8192;
  static_assert(NodeLists<T>::most_short <= entries_to_copy);
  SumRun<T> of_node = run;
  of_node.problem.ranks = static_cast<int>(peers.size());
  SumMemory<T>& memory = run.memory;
  const bool whole = begin == 0 && end == run.problem.count;
  std::int64_t entries = 0;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    const auto range_in = [&](const auto& list) {
      return whole ? std::pair<std::int64_t, std::int64_t>(0, list.count)
                   : std::pair(list.lower_bound(begin), list.lower_bound(end));
    };
    Entries<T> part;
    if (static_cast<int>(rank) == run.node->rank()) {
      const auto [first, last] = range_in(run.own);
      part = run.own.part(first, last);
    } else {
      const ShownList<T> list = run.node->shown(static_cast<int>(rank), run.counts[static_cast<std::size_t>(peers[rank])]);
      const auto [first, last] = range_in(list);
      if (last - first <= entries_to_copy) {
        const EntryPlace<T> copy = memory.lists[0].place().from(entries);
        list.copy(first, last, copy);
        part = copy.first(last - first);
      } else {
        part = list.part(first, last);
      }
    }
    memory.gathered[rank] = entries;
    memory.parts[rank] = {part, 0};
    entries += part.count;
  }
  return merge_parts(of_node, std::span<const std::int64_t>(memory.gathered));
}

/// Each rank of a node owns a slice of the array when nodes sum first. Returns where that of rank `rank` of the node begins.
[[nodiscard]] inline std::int64_t slice_begin(std::int64_t count, int rank, int ranks) {
  return static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(count), rank, ranks));
}

/// Returns the node's sum of this rank's slice, with indices that count from the beginning of the slice.
template <class T>
[[nodiscard]] Entries<T> merge_slice(const SumRun<T>& run, std::span<const int> peers) {
  const int rank = run.node->rank(), ranks = static_cast<int>(peers.size());
  const std::int64_t begin = slice_begin(run.problem.count, rank, ranks), end = slice_begin(run.problem.count, rank + 1, ranks);
  const Entries<T> sum = merge_shown(run, peers, begin, end);
  EntryMemory<T>& to = run.memory.lists[sum.indices == run.memory.lists[0].indices.data() ? 1 : 0];
  for (std::int64_t i = 0; i < sum.count; ++i) to.indices[i] = sum.indices[i] - begin;
  std::copy_n(sum.values, sum.count, to.values.data());
  return to.first(sum.count);
}

}  // namespace weir::sums
