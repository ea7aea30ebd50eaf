// node_memory.hpp: memory that the ranks of a node share, allocated from a few large segments.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "communicator/outcome.hpp"
#include "transport/shared_segment.hpp"

namespace weir::detail {

struct CommunicatorState;

/// The shared memory of one communicator. All its ranks take and give back the same blocks in the same order, so every rank knows
/// what is free, and a block has the same place on every node. Unused segments are unmapped, except one.
class NodeMemory {
 public:
  /// Where a block lies. `segment` is -1 for no block.
  struct Block {
    int segment = -1;
    std::int64_t offset = 0, bytes = 0;
  };

  /// Makes room for the records of the next take(). Throws std::bad_alloc.
  void prepare();
  /// Returns a block of `bytes` for each rank. Collective, blocking; call prepare() before. Its pages are allocated here, not on
  /// first touch. If some rank cannot have it, every rank gets no block and the reason in `why`.
  [[nodiscard]] Block take(CommunicatorState& comm, std::int64_t bytes, Outcome& why);
  void give_back(const Block& block) noexcept;
  [[nodiscard]] SharedMemory memory(const Block& block) const;
  /// Returns the mapped bytes of each rank.
  [[nodiscard]] std::int64_t mapped() const;
  /// Returns those of each rank for which pages have been allocated.
  [[nodiscard]] std::int64_t taken() const;

 private:
  struct Segment {
    std::unique_ptr<SharedSegment> memory;  ///< null on nodes of one rank
    std::int64_t bytes = 0;                 ///< of each rank; 0: not in use
    std::int64_t taken = 0;                 ///< the first of these, whose pages have been allocated
    std::vector<Block> used;                ///< ascending
  };

  [[nodiscard]] Block place(std::int64_t bytes) noexcept;
  [[nodiscard]] Outcome take_pages(CommunicatorState& comm, const Block& block);
  /// Returns how much to take of a segment next, at least up to `end`.
  [[nodiscard]] static std::int64_t next_taken(const Segment& segment, std::int64_t end);
  [[nodiscard]] Outcome add_segment(CommunicatorState& comm, std::int64_t bytes);
  [[nodiscard]] std::int64_t next_segment_bytes(std::int64_t bytes, std::int64_t room) const;
  void drop_unused(std::size_t keep) noexcept;

  std::vector<Segment> segments_;
};

}  // namespace weir::detail
