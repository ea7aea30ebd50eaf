// node_cards.hpp: cards that the ranks of one node hand each other in shared memory. A message costs several times as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/completion.hpp"
#include "topology/topology.hpp"
#include "transport/shared_meeting.hpp"
#include "transport/shared_segment.hpp"

namespace weir {

/// One card of each rank of a node at a time. They publish the same number of cards. Here, ranks are numbered in the node.
class NodeCards final : public Completion {
 public:
  static constexpr std::size_t alignment = 8;  ///< of each card

  /// Returns the bytes of memory that each rank needs for cards of at most `card` bytes.
  [[nodiscard]] static constexpr std::int64_t memory_for(std::int64_t card) { return SharedMeeting::bytes + 2 * whole_lines(card); }

  /// `memory` has memory_for(card) bytes of each rank, and `topology` outlives the object. Call clear() on all ranks before any of
  /// them publishes.
  NodeCards(SharedMemory memory, std::int64_t card, const Topology& topology);
  /// Clears this rank's part of the memory.
  void clear() noexcept;

  /// Returns where this rank writes its next card.
  [[nodiscard]] std::byte* mine() const { return slot(rank_, meeting_.next()); }
  /// Shows the other ranks what mine() has.
  void publish() noexcept;
  /// Returns whether all ranks have published as many cards as this one.
  [[nodiscard]] bool reached() override { return meeting_.reached(); }
  /// Does the same, and looks for a few microseconds if ranks have cores of their own: ranks that call at the same time need no
  /// longer.
  [[nodiscard]] bool reached_soon() override;
  [[nodiscard]] bool awaits_peers() const noexcept override { return true; }
  [[nodiscard]] int awaited_rank() const noexcept override { return meeting_.awaited_rank(); }
  void abandon() noexcept override { meeting_.abandon(); }
  void idle() noexcept override { meeting_.idle(); }
  [[nodiscard]] std::string describe() const override { return meeting_.describe(); }
  /// Returns the last card of rank 0, once reached() is true. That of rank r lies r * stride() bytes behind it. They stay until
  /// this rank publishes twice more: each rank writes two cards by turns, and none can be two ahead of another.
  [[nodiscard]] const std::byte* first() const { return slot(0, last_); }
  [[nodiscard]] std::int64_t stride() const { return memory_.of(1) - memory_.of(0); }
  template <class Card>
  [[nodiscard]] const Card& of(int rank) const {
    return *reinterpret_cast<const Card*>(first() + rank * stride());
  }

 private:
  static constexpr int usual_spins = 100;  // some 3 us

  [[nodiscard]] std::byte* slot(int rank, std::uint32_t meeting) const {
    return memory_.of(rank) + SharedMeeting::bytes + static_cast<std::int64_t>(meeting % 2) * slot_bytes_;
  }

  SharedMemory memory_;
  int rank_;
  SharedMeeting meeting_;
  std::int64_t slot_bytes_;
  int spins_;
  std::uint32_t last_ = 0;  // the meeting for which this rank has published last
};

}  // namespace weir
