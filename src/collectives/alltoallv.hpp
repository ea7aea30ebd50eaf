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
  /// What it must be able to carry: the most bytes that any rank sends, and that any rank receives, in one run, its block to itself
  /// included. Equal on all ranks.
  struct Capacity {
    std::int64_t sent = 0, received = 0;
  };
  virtual ~Alltoallv() = default;

  /// `out` holds the blocks for rank 0, 1, ..., P - 1 one after another, out_bytes[r] bytes each; `in` gets those from rank 0, 1,
  /// ... likewise: in_bytes[r] here is out_bytes[me] there. Blocks may be empty. All of it stays untouched until the run has
  /// finished. The block to oneself is copied. Blocks are payload at every hop, sizes are control. `channel` is that of all ranks.
  /// Throws Error(WEIR_ERR_INTERNAL) for more bytes than the capacity.
  virtual task<void> run(Channel channel, const std::byte* out, std::span<const std::int64_t> out_bytes, std::byte* in,
                         std::span<const std::int64_t> in_bytes) = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// Exchanges in flight.
inline constexpr int direct_alltoallv_window = 8;

/// Every block by itself: destinations rotate, so that no rank is everyone's target at once, and a window of exchanges is in
/// flight.
[[nodiscard]] std::unique_ptr<Alltoallv> make_direct_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

/// All blocks from one node to another as one message: gathered at a rank of the sending node, sent to one of the receiving node,
/// scattered there; other nodes' messages go through other ranks, in turn. Blocks inside a node go directly. What these ranks need
/// to know of sizes they hear inside their nodes, so across nodes there is at most one message for each ordered pair of them. All
/// of them may be under way at once. A node may send everything through one rank: with m ranks on the node, memory for about m
/// times the capacity twice over, of which a run touches what it uses. With one node, or one rank on every node: the same as
/// direct.
[[nodiscard]] std::unique_ptr<Alltoallv> make_by_node_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

}  // namespace weir
