// allreduce_packed_allgather.hpp: every rank gathers every rank's bytes, decodes and sums them in rank order (GRACE Algorithm 1,
// lines 10 to 14). Each rank sends (P - 1) times the compressed bytes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/compressed_exchange.hpp"
#include "collectives/host_space.hpp"
#include "collectives/packed_sums.hpp"

namespace weir {

/// `codec` must be for the memory of Space.
template <class Space>
class PackedAllgather final : public CompressedExchange {
 public:
  PackedAllgather(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec)
      : spec_(spec),
        space_(spec, 0, 0),
        codec_(std::move(codec)),
        gather_(*codec_, std::vector<std::int64_t>(static_cast<std::size_t>(spec.ranks), spec.count)),
        sum_(*codec_, spec.count),
        gathered_(spec.ranks * message_slot(codec_->most_bytes(spec.count))),
        staging_(space_, gathered_.bytes()) {}

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    StageScope stage = channel.stage(Stage::encode);
    co_await agree_on_values(channel, *codec_, values, spec_.count, agreement_);
    const std::int64_t bytes = codec_->encode(draw, 0, values, spec_.count, gathered_.data(), rest);
    space_.push(message(0), bytes);
    co_await space_.done(channel);

    stage.next(Stage::allgather);
    co_await gather_.run(channel, bytes, message(0).wire);
    space_.pull(message(gather_.others_begin()), gather_.others_bytes());

    stage.next(Stage::decode);
    for (int r = 0; r < spec_.ranks; ++r)
      sum_.decode(gathered_.data() + gather_.begin(r), gather_.bytes(r), spec_.count, out, r == 0);
    sum_.finish(out, spec_.count, spec_.ranks);
    if (!codec_->votes()) space_.divide({out, nullptr, spec_.count}, spec_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return space_.memory_bytes() + gathered_.bytes() + staging_.bytes() + sum_.memory_bytes() + codec_->memory_bytes();
  }

 private:
  [[nodiscard]] Message message(std::int64_t offset) { return staging_.at(gathered_.data(), offset); }

  ExchangeSpec spec_;
  Space space_;
  std::unique_ptr<PackedCodec> codec_;
  AgreementMemory agreement_;
  PackedGather gather_;
  PackedSum sum_;
  typename Space::template Array<std::byte> gathered_;
  typename Space::StagingBuffer staging_;
};

}  // namespace weir
