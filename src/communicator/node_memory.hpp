// node_memory.hpp: memory that the ranks of a node share, handed out from a few large segments.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "communicator/outcome.hpp"
#include "transport/shared_segment.hpp"

namespace weir::detail {

struct CommunicatorState;

/// One communicator's. All its ranks take and give back the same in the same order, so all know what is free, and a block has the
/// same place on every node. Segments nobody uses are unmapped, all but one.
class NodeMemory {
 public:
  /// Where a block lies; `segment` -1: nowhere.
  struct Block {
    int segment = -1;
    std::int64_t offset = 0, bytes = 0;
  };

  /// Room for what the next take() notes. Throws std::bad_alloc.
  void prepare();
  /// Collective, blocking. Pages are taken here, not on first touch. Where some rank cannot have it, it is nowhere on all, and
  /// `why` says why. After prepare().
  [[nodiscard]] Block take(CommunicatorState& comm, std::int64_t bytes, Outcome& why);
  void give_back(const Block& block) noexcept;
  [[nodiscard]] SharedMemory memory(const Block& block) const;
  /// Bytes mapped, of each rank.
  [[nodiscard]] std::int64_t mapped() const;

 private:
  struct Segment {
    std::unique_ptr<SharedSegment> memory;  ///< none on nodes of one rank
    std::int64_t bytes = 0;                 ///< of each rank; 0: not in use
    std::vector<Block> used;                ///< ascending
  };

  [[nodiscard]] Block place(std::int64_t bytes) noexcept;
  [[nodiscard]] Outcome add_segment(CommunicatorState& comm, std::int64_t bytes);
  [[nodiscard]] std::int64_t next_segment_bytes(std::int64_t bytes, std::int64_t room) const;
  void drop_unused(std::size_t keep) noexcept;

  std::vector<Segment> segments_;
};

}  // namespace weir::detail
