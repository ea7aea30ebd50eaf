// control.hpp: allreduce, allgather and broadcast of a few words: sizes, histograms, boundaries. Any P, log2 P steps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

/// data[0 .. maxima) becomes the maximum over all ranks, the rest up to `count` the sum. `scratch` holds `count` words.
/// Recursive doubling; ranks beyond the largest power of two fold into a partner before and hear the result after.
task<void> allreduce_control(Channel channel, std::uint64_t* data, std::int64_t count, std::int64_t maxima, std::uint64_t* scratch);

/// all[r] = what rank r gave as `mine`, `bytes` each, in rank order. `scratch` is as large as `all`. Bruck's allgather.
task<void> allgather_control(Channel channel, const std::byte* mine, std::int64_t bytes, std::byte* all, std::byte* scratch);

/// data[0 .. bytes) becomes that of rank `root`. A binomial tree.
task<void> broadcast_control(Channel channel, std::byte* data, std::int64_t bytes, int root);

/// The most messages that one rank sends (and the most it receives) in allreduce_control over `ranks` ranks.
[[nodiscard]] int allreduce_control_messages(int ranks);

}  // namespace weir
