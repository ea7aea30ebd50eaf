// packed_sums.hpp: gathers and sums the ranks' compressed messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/buffer.hpp"
#include "base/error.hpp"
#include "codec/packed.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "model/stages.hpp"

namespace weir {

/// Returns the bytes that a message takes in a buffer with several: messages begin at multiples of 8.
[[nodiscard]] constexpr std::int64_t message_slot(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Throws Error(WEIR_ERR_TRANSPORT) if a rank announces a message size that no codec makes.
inline void check_message(std::int64_t bytes, std::int64_t most, int from) {
  if (bytes < 0 || bytes > most)
    fail(WEIR_ERR_TRANSPORT, "rank {} announces a compressed message of {} bytes: there are at most {}", from, bytes, most);
}

/// The memory of messages of agree_on_values(), which must outlive a run that breaks off.
struct AgreementMemory {
  Agreement words{}, scratch{};
};

/// Lets the ranks agree on what the codec measures of their values, if it asks for that.
inline task<void> agree_on_values(Channel channel, PackedCodec& codec, const float* values, std::int64_t count,
                                  AgreementMemory& memory) {
  if (!codec.agrees()) co_return;
  memory.words = codec.measure(values, count);
  const std::int64_t words = std::ssize(memory.words);
  co_await allreduce_control(channel, memory.words.data(), words, words, memory.scratch.data());
  codec.agree(memory.words);
}

/// The sum of a codec's messages. Counts the senders of each value if the codec asks for it.
class PackedSum {
 public:
  PackedSum(PackedCodec& codec, std::int64_t count) : codec_(codec), senders_(codec.counts_senders() ? count : 0) {}

  /// Adds a message of `count` values to `sum`. The first message overwrites `sum`.
  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool first) {
    codec_.decode(in, bytes, count, sum, !first);
    if (senders_.size() == 0) return;
    if (first) std::fill_n(senders_.data(), count, std::uint16_t{0});
    codec_.count_senders(in, bytes, count, senders_.data());
  }
  /// Converts `count` summed values to what they stand for, after the messages of `ranks` ranks.
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

/// The exchange that ends the packed algorithms: brings every rank's message, of any size, to every rank.
class PackedGather {
 public:
  /// `counts`: the number of values in the message of each rank.
  PackedGather(const PackedCodec& codec, const std::vector<std::int64_t>& counts)
      : fixed_size_(codec.fixed_size()),
        sizes_(counts.size()),
        scratch_(fixed_size_ ? 0 : counts.size()),
        offset_(counts.size() + 1) {
    for (const std::int64_t count : counts) most_.push_back(codec.most_bytes(count));
  }

  /// This rank's message, of `bytes` bytes, is at `memory`, which has room for all messages in slots. The others follow in rank
  /// order, cyclically.
  task<void> run(Channel channel, std::int64_t bytes, std::byte* memory) {
    const int ranks = channel.size();
    me_ = channel.rank();
    if (fixed_size_) {
      sizes_ = most_;
    } else {
      sizes_[at(me_)] = bytes;
      co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&bytes), sizeof bytes,
                                 reinterpret_cast<std::byte*>(sizes_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
    }
    for (int i = 0; i < ranks; ++i) {
      const int from = (me_ + i) % ranks;
      check_message(sizes_[at(from)], most_[at(from)], from);
      offset_[at(i) + 1] = offset_[at(i)] + message_slot(sizes_[at(from)]);
    }
    if (offset_.back() < ring_from_bytes)
      co_await allgatherv(channel, offset_, memory);
    else
      co_await allgatherv_ring(channel, offset_, memory);
  }

  /// Return where the messages of the last run are in its memory: positions and sizes in bytes.
  [[nodiscard]] std::int64_t begin(int rank) const { return offset_[at((rank - me_ + ranks()) % ranks())]; }
  [[nodiscard]] std::int64_t bytes(int rank) const { return sizes_[at(rank)]; }
  [[nodiscard]] std::int64_t others_begin() const { return offset_[1]; }
  [[nodiscard]] std::int64_t others_bytes() const { return offset_.back() - offset_[1]; }

 private:
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int ranks() const { return static_cast<int>(most_.size()); }

  bool fixed_size_;
  int me_ = 0;
  std::vector<std::int64_t> most_, sizes_, scratch_;  // of the ranks' messages
  std::vector<std::int64_t> offset_;                  // of the message of rank (me + i) mod P
};

/// Returns the cost of a PackedGather of messages of `bytes`.
[[nodiscard]] inline model::StepCost gather_cost(const model::Setting& setting, const model::Group& group, double bytes) {
  const bool in_ring = bytes * group.ranks >= static_cast<double>(ring_from_bytes);
  return in_ring ? setting.network.ring_allgather(group, bytes) : setting.network.allgather(group, bytes);
}

}  // namespace weir
