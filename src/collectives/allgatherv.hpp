// allgatherv.hpp: the exchange that ends Ok-Topk: who holds how much, who balances with whom, and recursive doubling for any P.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "codec/coo.hpp"

namespace weir {

/// Position where part `part` of `parts` equal parts of `total` entries begins; sizes differ by at most one.
[[nodiscard]] constexpr std::uint64_t part_begin(std::uint64_t total, int part, int parts) {
  const auto p = static_cast<std::uint64_t>(part);
  const auto ps = static_cast<std::uint64_t>(parts);
  return total / ps * p + std::min(p, total % ps);
}

/// Most entries that any rank sends in allgatherv() of blocks of these sizes. `prefix` is scratch of 2 P + 1 words.
[[nodiscard]] std::uint64_t allgatherv_max_sent(const std::vector<std::uint64_t>& sizes, std::vector<std::uint64_t>& prefix);

/// Most entries that any rank sends when blocks of these sizes are first balanced to equal parts and then gathered.
[[nodiscard]] std::uint64_t balanced_max_sent(const std::vector<std::uint64_t>& sizes);

/// Recursive doubling in Bruck's form, which needs no power of two: in step s every rank sends all it has gathered, at most
/// 2^s blocks, to the rank 2^s below it. `offset[i]` is where the block of rank (me + i) mod P begins in `memory`, offset[P] the
/// end; the own block is in place before.
task<void> allgatherv(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory);

/// The same in a ring: in each of P - 1 steps every rank passes on the block that it got last. For much data: every rank sends as
/// much as in Bruck's form where blocks are equal and less where they are not, to one neighbour alone, so that ranks of a node
/// share its card less, and TCP connections carry data one way.
task<void> allgatherv_ring(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory);

/// The same in memory where blocks lie in the order of ranks: that of rank r from begin[r] to begin[r + 1].
task<void> allgatherv_ring_in_place(Channel channel, const std::vector<std::int64_t>& begin, std::byte* memory);

/// Bytes of all blocks from which on the ring is the better one (MPICH's limit of a long allgather).
constexpr std::int64_t ring_from_bytes = std::int64_t{512} << 10;

}  // namespace weir
