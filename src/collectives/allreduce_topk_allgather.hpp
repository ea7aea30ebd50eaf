// allreduce_topk_allgather.hpp: TopkA.
#pragma once

#include <vector>

#include "codec/coo.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/merge_tree.hpp"

namespace weir {

/// TopkA: every rank gathers all ranks' entries and sums them. The whole sum is delivered. Each rank sends k (P - 1) entries
/// (Ok-Topk table 1).
template <class T, class Space>
class TopkAllgather final : public SparseAllreduce<T> {
 public:
  explicit TopkAllgather(const ExchangeSpec& spec)
      : spec_(spec),
        cards_(size()),
        scratch_(size()),
        counts_(size()),
        offset_(size() + 1),
        space_(spec, spec.ranks * spec.largest_local, spec.ranks),
        gathered_(spec.ranks * coo::block_bytes<T>(spec.largest_local)),
        staging_(space_, gathered_.bytes()),
        tree_(space_, spec.ranks, spec.ranks * spec.largest_local) {}

  [[nodiscard]] MemorySpace memory() const override { return Space::memory; }
  void reset() override {}
  void visit_state(StateVisitor& /*visitor*/) override {}

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return space_.memory_bytes() + gathered_.bytes() + staging_.bytes() + tree_.memory_bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t /*k*/, ErrorReport input_error) override {
    SparseOutcome<T> outcome;
    const int me = channel.rank(), ranks = spec_.ranks;

    StageScope stage = channel.stage(Stage::announce);
    const Card mine{input_error, static_cast<std::uint64_t>(local.count)};
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&mine), sizeof(Card),
                               reinterpret_cast<std::byte*>(cards_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
    for (std::size_t r = 0; r < size(); ++r) {
      outcome.input_error = std::max(outcome.input_error, cards_[r].input_error);
      counts_[r] = static_cast<std::uint32_t>(cards_[r].count);
    }
    if (outcome.input_error) co_return outcome;

    stage.next(Stage::allgatherv);
    for (int i = 0; i < ranks; ++i) offset_[at(i) + 1] = offset_[at(i)] + slot_of((me + i) % ranks);
    const Message gathered = staging_.at(gathered_.data(), 0);
    space_.encode(spec_.wire(), local.indices, local.values, local.count, 0, range(), gathered);
    space_.push(gathered, offset_[1]);
    co_await space_.done(channel);
    co_await allgatherv(channel, offset_, gathered.wire);

    stage.next(Stage::sum);
    space_.pull(gathered, offset_.back());
    tree_.begin(counts_.data());
    for (int r = 0; r < ranks; ++r) {
      if (counts_[at(r)] == 0) continue;
      const coo::Segment<T> leaf = tree_.leaf(r);
      space_.decode(spec_.wire(), gathered.local + offset_[at((r - me + ranks) % ranks)], bytes_of(r), counts_[at(r)], 0, range(),
                    leaf.indices, leaf.values);
      tree_.arrived(r);
    }
    const coo::Segment<T> sum = tree_.root();
    space_.divide(sum, spec_);
    outcome.update = {sum.indices, sum.values, co_await space_.count_of(channel, sum)};
    co_return outcome;
  }

 private:
  struct Card {
    ErrorReport input_error;
    std::uint64_t count;
  };
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(spec_.ranks); }
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::uint64_t range() const { return static_cast<std::uint64_t>(spec_.count); }
  [[nodiscard]] std::int64_t slot_of(int rank) const { return wire::slot_bytes<T>(spec_.wire(), counts_[at(rank)], range()); }
  [[nodiscard]] std::int64_t bytes_of(int rank) const { return wire::message_bytes<T>(spec_.wire(), counts_[at(rank)], range()); }

  ExchangeSpec spec_;
  std::vector<Card> cards_, scratch_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::int64_t> offset_;  // in gathered_, of the block of rank (me + i) mod P
  Space space_;
  typename Space::template Array<std::byte> gathered_;
  typename Space::StagingBuffer staging_;
  MergeTree<T, Space> tree_;
};

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_allgather(const ExchangeSpec& spec);
inline constexpr Factories<SparseAllreduce> topk_allgather_factories{make_topk_allgather<float>, make_topk_allgather<double>};

}  // namespace weir
