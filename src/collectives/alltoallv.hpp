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
  /// What it must be able to carry: the most bytes that a rank sends, and that a rank receives, in one run, its block to itself
  /// included.
  struct Capacity {
    std::int64_t sent = 0, received = 0;
  };
  virtual ~Alltoallv() = default;

  /// `out` holds the blocks for rank 0, 1, ..., P - 1 one after another, out_bytes[r] bytes each; `in` gets those from rank 0, 1, ...
  /// likewise. The block to oneself is copied. Blocks may be empty. Traffic of blocks is payload wherever it passes.
  virtual task<void> run(Channel channel, const std::byte* out, std::span<const std::int64_t> out_bytes, std::byte* in,
                         std::span<const std::int64_t> in_bytes) = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// Every block by itself: destinations rotate, so that no rank is everyone's target at once, and a window of exchanges is in flight.
[[nodiscard]] std::unique_ptr<Alltoallv> make_direct_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

/// All blocks from one node to another as one message: gathered at a rank of the sending node, sent to one of the receiving node,
/// scattered there; other nodes' messages go through other ranks, in turn. Blocks inside a node go directly.
[[nodiscard]] std::unique_ptr<Alltoallv> make_by_node_alltoallv(const Topology& topology, Alltoallv::Capacity capacity);

}  // namespace weir
