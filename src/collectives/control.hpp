// control.hpp: allreduce, allgather, broadcast and alltoall of a few words: sizes, histograms, boundaries. For any P, in log2 P
// steps; alltoall takes one among few ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

/// Alltoall of one word. Up to 256 ranks send each other their words directly. More ranks use Bruck's alltoall, in log2 P messages
/// of each rank: MPI libraries search their lists of messages in flight from end to end.
template <class Word>
class ControlAlltoall {
 public:
  explicit ControlAlltoall(int ranks);
  /// Sets in[r] to what rank r has as out[rank]. The object outlives a run that breaks off.
  task<void> run(Channel channel, const Word* out, Word* in);

 private:
  task<void> run_directly(Channel channel, const Word* out, Word* in);
  task<void> run_by_bruck(Channel channel, const Word* out, Word* in);

  std::vector<Request> requests_;
  std::vector<Word> words_, sent_, received_;  // for Bruck's alltoall
};

/// Returns the most messages that one rank sends, and the most it receives, in allreduce_control over `ranks` ranks.
[[nodiscard]] int allreduce_control_messages(int ranks);
/// Returns the messages that a rank sends in ControlAlltoall among `ranks` ranks.
[[nodiscard]] int alltoall_control_messages(int ranks);

}  // namespace weir
