// blobs.hpp: runs of bytes whose lengths differ, between rank 0 and the others.
#pragma once

#include <cstdint>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir::checkpoint {

using Blob = std::vector<std::uint8_t>;

/// What blobs travel in; it outlives the run, however that ends.
class BlobExchange {
 public:
  /// On rank 0, all[r] becomes what rank r gave as `mine`. `mine` stays until it has been done.
  task<void> gather(Channel channel, const Blob& mine, std::vector<Blob>& all);
  /// `mine` becomes what rank 0 has as parts[r].
  task<void> scatter(Channel channel, const std::vector<Blob>& parts, Blob& mine);
  /// `blob` becomes that of rank 0.
  task<void> broadcast(Channel channel, Blob& blob);

 private:
  std::vector<std::uint64_t> sizes_;
  std::uint64_t size_ = 0;
};

}  // namespace weir::checkpoint
