// allgatherv.hpp: the exchange that ends Ok-Topk: who holds how much, who balances with whom, and recursive doubling for any P.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "codec/coo.hpp"

namespace weir {

/// Returns the position where part `part` of `parts` equal parts of `total` entries begins. Sizes differ by at most one.
[[nodiscard]] constexpr std::uint64_t part_begin(std::uint64_t total, int part, int parts) {
  const auto p = static_cast<std::uint64_t>(part);
  const auto ps = static_cast<std::uint64_t>(parts);
  return total / ps * p + std::min(p, total % ps);
}

/// Returns the most entries that any rank sends in allgatherv() of blocks of these sizes. `prefix` is scratch of 2 P + 1 words.
[[nodiscard]] std::uint64_t allgatherv_max_sent(const std::vector<std::uint64_t>& sizes, std::vector<std::uint64_t>& prefix);

/// Returns the most entries that any rank sends if blocks of these sizes are first balanced to equal parts and then gathered.
[[nodiscard]] std::uint64_t balanced_max_sent(const std::vector<std::uint64_t>& sizes);

/// Gathers all blocks on all ranks by recursive doubling in Bruck's form, which needs no power of two: in step s every rank sends
/// all it has gathered, at most 2^s blocks, to the rank 2^s below it. The block of rank (me + i) mod P begins at `offset[i]` in
/// `memory`; offset[P] is the end. The rank's own block must be in place before the call.
task<void> allgatherv(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory);

/// Does the same in a ring: in each of P - 1 steps every rank passes on the block that it received last. For large data: every rank
/// sends as much as in Bruck's form if blocks are equal, and less if they are not. It sends to one neighbour only, so that the
/// ranks of a node share its network card less, and TCP connections carry data in one direction.
task<void> allgatherv_ring(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory);

/// Does the same in memory that holds the blocks in the order of ranks: that of rank r from begin[r] to begin[r + 1].
task<void> allgatherv_ring_in_place(Channel channel, const std::vector<std::int64_t>& begin, std::byte* memory);

/// Total bytes of all blocks from which the ring is faster (MPICH's limit of a long allgather).
constexpr std::int64_t ring_from_bytes = std::int64_t{512} << 10;

}  // namespace weir
