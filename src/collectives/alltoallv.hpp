// alltoallv.hpp: a block from every rank to every other, of sizes that both ends know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

class Alltoallv {
 public:
  /// The most bytes that any rank sends, and that any rank receives, in one run, including its block to itself. The same on all
  /// ranks.
  struct Capacity {
    std::int64_t sent = 0, received = 0;
  };
  virtual ~Alltoallv() = default;

  /// Exchanges blocks. `out` holds the blocks for rank 0, 1, ..., P - 1 one after another, out_bytes[r] bytes each. `in` receives
  /// the blocks from rank 0, 1, ... in the same order: in_bytes[r] here is out_bytes[me] there. Blocks may be empty. The caller
  /// must not touch the arrays until the run has finished. The block to oneself is copied. Blocks are payload at every hop, sizes
  /// are control. `channel` is that of all ranks. Throws Error(WEIR_ERR_INTERNAL) for more bytes than the capacity.
  virtual task<void> run(Channel channel, const std::byte* out, std::span<const std::int64_t> out_bytes, std::byte* in,
                         std::span<const std::int64_t> in_bytes) = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// The number of exchanges in flight.
inline constexpr int direct_alltoallv_window = 8;

/// Makes an exchange that sends every block on its own. Destinations rotate, so that the ranks do not all send to one rank at once,
/// and a window of exchanges is in flight.
[[nodiscard]] std::unique_ptr<Alltoallv> make_direct_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

/// Makes an exchange that sends all blocks from one node to another as one message: gathered at a rank of the sending node, sent to
/// a rank of the receiving node, scattered there. Messages to other nodes go through other ranks, in turn. Blocks inside a node go
/// directly. Ranks learn sizes inside their nodes, so there is at most one message across nodes for each ordered pair of them. All
/// of them may be in flight at once. A node may send everything through one rank: with m ranks on the node, that rank has memory
/// for about m times the capacity twice over, and touches only what a run uses. With one node, or one rank on every node, it is the
/// same as direct.
[[nodiscard]] std::unique_ptr<Alltoallv> make_by_node_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

}  // namespace weir
