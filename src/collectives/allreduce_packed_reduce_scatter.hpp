// allreduce_packed_reduce_scatter.hpp: each rank owns a part of the vector. It receives this part from all ranks, compressed, and
// sums it. All ranks gather the sums, compressed again. Each rank sends 2 (P - 1) / P times the compressed bytes, for any number of
// ranks (the two stages of 1-bit Adam and of ZeRO++, and of DoubleSqueeze: Tang et al., ICML 2019, which keeps what the second
// stage loses).
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/compressed_exchange.hpp"
#include "collectives/host_space.hpp"
#include "collectives/packed_sums.hpp"

namespace weir {

/// Maps parts to owners: whole units of the codec, shared out evenly.
class PackedParts {
 public:
  PackedParts(std::int64_t count, std::int64_t granularity, int ranks) : count_(count), unit_(granularity), ranks_(ranks) {}
  [[nodiscard]] std::int64_t begin(int rank) const {
    const auto units = static_cast<std::uint64_t>((count_ + unit_ - 1) / unit_);
    return std::min(count_, static_cast<std::int64_t>(part_begin(units, rank, ranks_)) * unit_);
  }
  [[nodiscard]] std::int64_t size(int rank) const { return begin(rank + 1) - begin(rank); }
  [[nodiscard]] std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> sizes;
    for (int r = 0; r < ranks_; ++r) sizes.push_back(size(r));
    return sizes;
  }

 private:
  std::int64_t count_, unit_;
  int ranks_;
};

/// `codec` must be for the memory of Space.
template <class Space>
class PackedReduceScatter final : public CompressedExchange {
 public:
  PackedReduceScatter(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec)
      : spec_(spec),
        window_(static_cast<int>(spec.parameters.whole("window"))),
        space_(spec, 0, 0),
        codec_(std::move(codec)),
        encodes_own_(codec_->votes() || codec_->keeps_sums()),
        parts_(spec.count, codec_->granularity(), spec.ranks),
        gather_(*codec_, parts_.sizes()),
        out_sizes_(at(spec.ranks)),
        in_sizes_(at(spec.ranks)),
        out_offset_(at(spec.ranks) + 1),
        requests_(2 * at(spec.ranks)),
        outgoing_(bytes_of_all()),
        // Rank 0 owns the largest part. The memory of received messages is free again before sums are gathered.
        incoming_(std::max(bytes_of_all(), spec.ranks * slot_of_part(0))),
        staged_outgoing_(space_, outgoing_.bytes()),
        staged_incoming_(space_, incoming_.bytes()),
        sum_(parts_.size(0)) {}

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    const int me = channel.rank(), ranks = spec_.ranks;
    const std::int64_t begin = parts_.begin(me), size = parts_.size(me);

    // 1. encode every part on its own; my own part goes into the sum as it is, unless the codec needs it, too
    {
      const StageScope stage = channel.stage(Stage::encode);
      co_await agree_on_values(channel, *codec_, values, spec_.count, agreement_);
      out_offset_[0] = 0;
      for (int r = 0; r < ranks; ++r) {
        out_sizes_[at(r)] = r != me || encodes_own_ ? encode_part(draw, values, r, rest) : 0;
        if (r != me) space_.push(outgoing(r), out_sizes_[at(r)]);
        out_offset_[at(r) + 1] = out_offset_[at(r)] + message_slot(out_sizes_[at(r)]);
      }
      co_await space_.done(channel);
    }

    // 2. every rank receives its part from all others
    co_await exchange_parts(channel);

    // 3. sum in rank order; my own part last if it is as it was, since it is of the type that the codec's sums turn into
    {
      const StageScope stage = channel.stage(Stage::decode);
      add_up(me, values + begin, size);
    }

    // 4. encode the sum; this rank keeps what that loses
    std::int64_t bytes = 0;
    {
      const StageScope stage = channel.stage(Stage::encode);
      draw.stream |= again;
      bytes = codec_->encode(draw, begin, sum_.data(), size, incoming_.data(), rest != nullptr ? sum_.data() : nullptr);
      space_.push(gathered(0), bytes);
      if (rest != nullptr && encodes_own_)
        space_.add_values(sum_.data(), rest + begin, size);
      else if (rest != nullptr)
        space_.copy_values(sum_.data(), rest + begin, size);
      co_await space_.done(channel);
    }

    // 5. all ranks gather the sums
    {
      const StageScope stage = channel.stage(Stage::allgather);
      co_await gather_.run(channel, bytes, gathered(0).wire);
      space_.pull(gathered(gather_.others_begin()), gather_.others_bytes());
    }

    // 6. and decode them
    const StageScope stage = channel.stage(Stage::decode);
    for (int r = 0; r < ranks; ++r) {
      float* const part = out + parts_.begin(r);
      codec_->decode(incoming_.data() + gather_.begin(r), gather_.bytes(r), parts_.size(r), part, false);
      codec_->finish(part, parts_.size(r));
    }
    if (!codec_->votes()) space_.divide({out, nullptr, spec_.count}, spec_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return space_.memory_bytes() + outgoing_.bytes() + incoming_.bytes() + staged_outgoing_.bytes() + staged_incoming_.bytes() +
           sum_.bytes() + codec_->memory_bytes();
  }

 private:
  static constexpr std::uint32_t again = std::uint32_t{1} << 31;  // the random stream of what a rank encodes again

  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::int64_t slot_of_part(int rank) const { return message_slot(codec_->most_bytes(parts_.size(rank))); }
  [[nodiscard]] std::int64_t bytes_of_all() const {
    std::int64_t all = 0;
    for (int r = 0; r < spec_.ranks; ++r) all += slot_of_part(r);
    return all;
  }
  [[nodiscard]] Message outgoing(int to) { return staged_outgoing_.at(outgoing_.data(), out_offset_[at(to)]); }
  [[nodiscard]] Message incoming(int from) { return staged_incoming_.at(incoming_.data(), from * slot_of_part(0)); }
  [[nodiscard]] Message gathered(std::int64_t offset) { return staged_incoming_.at(incoming_.data(), offset); }

  std::int64_t encode_part(const Draw& draw, const float* values, int rank, float* rest) {
    const std::int64_t begin = parts_.begin(rank);
    return codec_->encode(draw, begin, values + begin, parts_.size(rank), outgoing_.data() + out_offset_[at(rank)],
                          rest != nullptr ? rest + begin : nullptr);
  }

  /// Rotates destinations, so that the ranks do not all send to one rank at once. A window of exchanges is in flight.
  task<void> exchange_parts(Channel channel) {
    const int me = channel.rank(), ranks = spec_.ranks;
    const StageScope stage = channel.stage(Stage::reduce_scatter);
    for (int r = 0; r < ranks; ++r) in_sizes_[at(r)] = codec_->most_bytes(parts_.size(me));
    if (!codec_->fixed_size()) {
      for (int s = 1; s < ranks; ++s) {
        const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
        requests_[at(2 * s - 2)] = channel.receive(&in_sizes_[at(from)], sizeof(std::int64_t), from, Traffic::control);
        requests_[at(2 * s - 1)] = channel.send(&out_sizes_[at(to)], sizeof(std::int64_t), to, Traffic::control);
      }
      co_await channel.done(std::span(requests_).first(at(2 * ranks - 2)));
      for (int r = 0; r < ranks; ++r) {
        if (r != me) check_message(in_sizes_[at(r)], codec_->most_bytes(parts_.size(me)), r);
      }
    }
    for (int s = 1; s < ranks + window_; ++s) {
      if (s > window_) co_await channel.done(std::span(requests_).subspan(at(2 * (s - window_)), 2));
      if (s >= ranks) continue;
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      const std::int64_t out = out_sizes_[at(to)], in = in_sizes_[at(from)];
      requests_[at(2 * s)] = in > 0 ? channel.receive(incoming(from).wire, in, from, Traffic::payload) : Request{};
      requests_[at(2 * s + 1)] = out > 0 ? channel.send(outgoing(to).wire, out, to, Traffic::payload) : Request{};
    }
  }

  void add_up(int me, const float* own, std::int64_t size) {
    bool any = false;
    for (int r = 0; r < spec_.ranks; ++r) {
      if (r == me && !encodes_own_) continue;
      const Message message = r == me ? outgoing(me) : incoming(r);
      if (r != me) space_.pull(message, in_sizes_[at(r)]);
      codec_->decode(message.local, r == me ? out_sizes_[at(me)] : in_sizes_[at(r)], size, sum_.data(), any);
      any = true;
    }
    if (any) codec_->finish(sum_.data(), size);
    if (encodes_own_) return;
    if (any)
      space_.add_values(own, sum_.data(), size);
    else
      space_.copy_values(own, sum_.data(), size);
  }

  ExchangeSpec spec_;
  int window_;  // exchanges in flight
  Space space_;
  std::unique_ptr<PackedCodec> codec_;
  AgreementMemory agreement_;
  bool encodes_own_;  // my own part goes through the codec
  PackedParts parts_;
  PackedGather gather_;  // of the sums
  std::vector<std::int64_t> out_sizes_, in_sizes_;
  std::vector<std::int64_t> out_offset_;  // in outgoing_, of each rank's part
  std::vector<Request> requests_;
  typename Space::template Array<std::byte> outgoing_, incoming_;
  typename Space::StagingBuffer staged_outgoing_, staged_incoming_;
  typename Space::template Array<float> sum_;  // of my part
};

}  // namespace weir
