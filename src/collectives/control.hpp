// control.hpp: allreduce, allgather, broadcast and alltoall of a few words: sizes, histograms, boundaries. For any P, in log2 P
// steps, except alltoall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

/// Sets data[0 .. maxima) to the maximum over all ranks, and the rest up to `count` to the sum. `scratch` holds `count` words. Uses
/// recursive doubling. Ranks beyond the largest power of two send to a partner first and receive the result last.
task<void> allreduce_control(Channel channel, std::uint64_t* data, std::int64_t count, std::int64_t maxima, std::uint64_t* scratch);

/// Sets all[r] to what rank r gave as `mine`, `bytes` each, in rank order. `scratch` is as large as `all`. Uses Bruck's allgather.
task<void> allgather_control(Channel channel, const std::byte* mine, std::int64_t bytes, std::byte* all, std::byte* scratch);

/// Sets data[0 .. bytes) to that of rank `root`. Uses a binomial tree.
task<void> broadcast_control(Channel channel, std::byte* data, std::int64_t bytes, int root);

/// Sets block r of `in` to block `rank` of what rank r gave as `out`, `bytes` each. `requests` has room for 2 P. Every rank sends
/// to every other directly, to 256 of them at a time: MPI libraries search their lists of messages from end to end.
task<void> alltoall_control(Channel channel, const std::byte* out, std::byte* in, std::int64_t bytes, std::span<Request> requests);

/// Returns the most messages that one rank sends, and the most it receives, in allreduce_control over `ranks` ranks.
[[nodiscard]] int allreduce_control_messages(int ranks);

}  // namespace weir
