// blobs.hpp: exchange of byte strings of different lengths between rank 0 and the others.
#pragma once

#include <cstdint>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

using Blob = std::vector<std::uint8_t>;

/// Moves blobs along a channel. Must outlive the run, however the run ends.
class BlobExchange {
 public:
  /// Sets all[r] on rank 0 to what rank r gave as `mine`, which must stay valid until the call has ended.
  task<void> gather(Channel channel, const Blob& mine, std::vector<Blob>& all);
  /// Sets `mine` on rank r to parts[r] of rank 0.
  task<void> scatter(Channel channel, const std::vector<Blob>& parts, Blob& mine);
  /// Sets `blob` to that of rank 0.
  task<void> broadcast(Channel channel, Blob& blob);

 private:
  std::vector<std::uint64_t> sizes_;
  std::uint64_t size_ = 0;
};

}  // namespace weir
