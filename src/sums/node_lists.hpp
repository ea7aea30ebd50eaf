// node_lists.hpp: the entries that the ranks of one node show each other in shared memory, instead of sending them.
//
// A rank that starts its next run has ended the last one, and each run waits until all ranks have started it. So a rank writes its
// entries to two places by turns: others may still read those of the last run, but none reads those of the run before. The sums of
// parts are read by runs that have ended on all ranks when the next ones are written, so they have one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "communicator/node_cards.hpp"
#include "sums/entries.hpp"

namespace weir::sums {

template <class T>
class NodeLists {
 public:
  /// Returns the bytes of memory that each rank needs for lists of at most `capacity` entries, and cards of `card` bytes.
  [[nodiscard]] static constexpr std::int64_t memory_for(std::int64_t capacity, int ranks, std::int64_t card) {
    return detail::NodeCards::memory_for(card) + detail::NodeCards::memory_for(sizeof(std::int64_t)) + 2 * list_bytes(capacity) +
           list_bytes(part_capacity(capacity, ranks));
  }

  /// `memory` has memory_for() bytes of each rank. Make it on all ranks before any of them uses it.
  NodeLists(const SharedMemory& memory, std::int64_t capacity, const Topology& topology, std::int64_t card)
      : cards(memory, card, topology),
        part_counts(memory.from(detail::NodeCards::memory_for(card)), sizeof(std::int64_t), topology),
        lists_(memory.from(detail::NodeCards::memory_for(card) + detail::NodeCards::memory_for(sizeof(std::int64_t)))),
        capacity_(capacity),
        part_capacity_(part_capacity(capacity, topology.size())),
        rank_(topology.rank()) {
    cards.clear();
    part_counts.clear();
  }

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }

  /// Writes this rank's entries, at most capacity(), for the run that starts. Call it in each run.
  void show(const Entries<T>& own) {
    shown_ = 1 - shown_;
    copy(own, lists_.of(rank_) + shown_ * list_bytes(capacity_), capacity_);
  }
  /// Returns the entries of a rank in this run, once all have published their cards.
  [[nodiscard]] Entries<T> shown(int rank, std::int64_t count) const {
    return at(lists_.of(rank) + shown_ * list_bytes(capacity_), capacity_, count);
  }
  /// Writes the sum of this rank's part.
  void show_part(const Entries<T>& sum) { copy(sum, part(rank_), part_capacity_); }
  /// Returns the sum of a rank's part, once all have published how many entries theirs have.
  [[nodiscard]] Entries<T> shown_part(int rank) const {
    return at(part(rank), part_capacity_, part_counts.template of<std::int64_t>(rank));
  }

  detail::NodeCards cards;        ///< what each rank says of its run
  detail::NodeCards part_counts;  ///< how many entries the sum of each rank's part has

 private:
  static constexpr std::int64_t line = 64;
  /// Parts have as many entries as lists have on average, and the other lists' entries with the last index.
  [[nodiscard]] static constexpr std::int64_t part_capacity(std::int64_t capacity, int ranks) { return capacity + ranks + 1; }
  [[nodiscard]] static constexpr std::int64_t index_bytes(std::int64_t capacity) { return (8 * capacity + line - 1) / line * line; }
  [[nodiscard]] static constexpr std::int64_t list_bytes(std::int64_t capacity) {
    return index_bytes(capacity) + (static_cast<std::int64_t>(sizeof(T)) * capacity + line - 1) / line * line;
  }
  [[nodiscard]] std::byte* part(int rank) const { return lists_.of(rank) + 2 * list_bytes(capacity_); }
  [[nodiscard]] static Entries<T> at(const std::byte* list, std::int64_t capacity, std::int64_t count) {
    return {reinterpret_cast<const std::int64_t*>(list), reinterpret_cast<const T*>(list + index_bytes(capacity)), count};
  }
  static void copy(const Entries<T>& from, std::byte* list, std::int64_t capacity) {
    std::copy_n(from.indices, from.count, reinterpret_cast<std::int64_t*>(list));
    std::copy_n(from.values, from.count, reinterpret_cast<T*>(list + index_bytes(capacity)));
  }

  SharedMemory lists_;
  std::int64_t capacity_, part_capacity_;
  int rank_;
  int shown_ = 1;
};

}  // namespace weir::sums
