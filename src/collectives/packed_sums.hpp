// packed_sums.hpp: how many bytes the ranks' compressed messages have, and how they are summed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/buffer.hpp"
#include "base/error.hpp"
#include "codec/packed.hpp"
#include "collectives/control.hpp"

namespace weir {

/// Bytes that a message takes in a buffer in which others follow: messages begin at multiples of 8.
[[nodiscard]] constexpr std::int64_t message_slot(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Throws Error(WEIR_ERR_TRANSPORT) where a rank announces a message that no codec makes.
inline void check_message(std::int64_t bytes, std::int64_t most, int from) {
  if (bytes < 0 || bytes > most)
    fail(WEIR_ERR_TRANSPORT, "rank {} announces a compressed message of {} bytes: there are at most {}", from, bytes, most);
}

/// A codec's sums, and who sent what of them, if it wants to know.
class PackedSum {
 public:
  PackedSum(PackedCodec& codec, std::int64_t count) : codec_(codec), senders_(codec.counts_senders() ? count : 0) {}

  /// Adds a message of `count` values to `sum`, or, if it is the first, overwrites that.
  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool first) {
    codec_.decode(in, bytes, count, sum, !first);
    if (senders_.size() == 0) return;
    if (first) std::fill_n(senders_.data(), count, std::uint16_t{0});
    codec_.count_senders(in, bytes, count, senders_.data());
  }
  /// What `count` values stand for after messages of `ranks` ranks.
  void finish(float* sum, std::int64_t count, int ranks) {
    for (std::int64_t i = 0; i < std::min(count, senders_.size()); ++i) {
      if (senders_[i] > 0) sum[i] *= static_cast<float>(ranks) / static_cast<float>(senders_[i]);
    }
    codec_.finish(sum, count);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return senders_.bytes(); }

 private:
  PackedCodec& codec_;
  Buffer<std::uint16_t> senders_;
};

/// One size for each rank.
class PackedSizes {
 public:
  PackedSizes(int ranks, const PackedCodec& codec)
      : sizes_(static_cast<std::size_t>(ranks)), scratch_(codec.fixed_size() ? 0 : static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] std::int64_t& operator[](int rank) { return sizes_[static_cast<std::size_t>(rank)]; }
  /// Every rank tells its own.
  task<void> allgather(Channel channel) {
    const std::int64_t mine = (*this)[channel.rank()];
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                               reinterpret_cast<std::byte*>(sizes_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
  }

 private:
  std::vector<std::int64_t> sizes_, scratch_;
};

}  // namespace weir
