// allreduce_packed_allgather.hpp: every rank gathers every rank's bytes, decodes and sums them in rank order (GRACE Algorithm 1,
// lines 10 to 14). (P - 1) times the compressed bytes are sent per rank.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/allgatherv.hpp"
#include "collectives/compressed_exchange.hpp"
#include "collectives/host_space.hpp"
#include "collectives/packed_sums.hpp"

namespace weir {

/// `codec` is for the memory of Space.
template <class Space>
class PackedAllgather final : public CompressedExchange {
 public:
  PackedAllgather(const AllreduceProblem& problem, std::unique_ptr<PackedCodec> codec)
      : problem_(problem),
        space_(problem, 0, 0),
        codec_(std::move(codec)),
        sizes_(problem.ranks, *codec_),
        sum_(*codec_, problem.count),
        offset_(static_cast<std::size_t>(problem.ranks) + 1),
        gathered_(problem.ranks * message_slot(codec_->most_bytes(problem.count))),
        staging_(space_, gathered_.bytes()) {}

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    const int me = channel.rank(), ranks = problem_.ranks;
    StageScope stage = channel.stage(Stage::encode);
    sizes_[me] = codec_->encode(draw, 0, values, problem_.count, gathered_.data(), rest);
    space_.push(message(0), sizes_[me]);
    co_await space_.done(channel);

    stage.next(Stage::allgather);
    for (int r = 0; r < ranks && codec_->fixed_size(); ++r) sizes_[r] = codec_->most_bytes(problem_.count);
    if (!codec_->fixed_size()) co_await sizes_.allgather(channel);
    for (int i = 0; i < ranks; ++i) {
      const int from = (me + i) % ranks;
      check_message(sizes_[from], codec_->most_bytes(problem_.count), from);
      offset_[at(i) + 1] = offset_[at(i)] + message_slot(sizes_[from]);
    }
    co_await allgatherv(channel, offset_, message(0).wire);
    space_.pull(message(offset_[1]), offset_.back() - offset_[1]);

    stage.next(Stage::decode);
    for (int r = 0; r < ranks; ++r)
      sum_.decode(gathered_.data() + offset_[at((r - me + ranks) % ranks)], sizes_[r], problem_.count, out, r == 0);
    sum_.finish(out, problem_.count, ranks);
    if (!codec_->votes()) space_.divide({out, nullptr, problem_.count}, problem_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return space_.memory_bytes() + gathered_.bytes() + staging_.bytes() + sum_.memory_bytes() + codec_->memory_bytes();
  }

 private:
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] Message message(std::int64_t offset) { return staging_.at(gathered_.data(), offset); }

  AllreduceProblem problem_;
  Space space_;
  std::unique_ptr<PackedCodec> codec_;
  PackedSizes sizes_;
  PackedSum sum_;
  std::vector<std::int64_t> offset_;  // in gathered_, of the message of rank (me + i) mod P
  typename Space::template Array<std::byte> gathered_;
  typename Space::StagingBuffer staging_;
};

}  // namespace weir
