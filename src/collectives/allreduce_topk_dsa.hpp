// allreduce_topk_dsa.hpp: the sparse allreduce of SparCML.
#pragma once

#include <algorithm>
#include <vector>

#include "codec/coo.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/regions.hpp"
#include "collectives/split_reduce.hpp"

namespace weir {

/// SparCML's dynamic sparse allreduce (split allgather): regions of equal size are summed at their owners and gathered, each dense
/// if that is smaller. The whole sum is delivered. Each rank sends between 2 k (P - 1) / P and (k + n / 2) (P - 1) / P entries
/// (Ok-Topk table 1).
template <class T, class Space>
class TopkDsa final : public SparseAllreduce<T> {
 public:
  explicit TopkDsa(const ExchangeSpec& spec)
      : spec_(spec),
        space_(spec, largest_update() + spec.ranks, spec.ranks),
        split_(space_, {.ranks = spec.ranks,
                        .largest_local = spec.largest_local,
                        .region_capacity = std::min(spec.ranks * spec.largest_local, spec.count + spec.ranks),
                        .window = static_cast<int>(spec.parameters.whole("window")),
                        .wire = spec.wire()}),
        boundaries_(size() + 1),
        own_counts_(size()),
        counts_(size()),
        scratch_(size()),
        offset_(size() + 1),
        gathered_(coo::block_bytes<T>(largest_update()) + 8 * spec.ranks),
        staging_(space_, gathered_.bytes()),
        indices_(largest_update()),
        values_(largest_update()) {
    uniform_boundaries(static_cast<std::uint64_t>(spec.count), boundaries_);
  }

  [[nodiscard]] MemorySpace memory() const override { return Space::memory; }
  void reset() override {}
  void visit_state(StateVisitor& /*visitor*/) override {}

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return space_.memory_bytes() + split_.memory_bytes() + gathered_.bytes() + staging_.bytes() + indices_.bytes() +
           values_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t /*k*/, ErrorReport input_error) override {
    SparseOutcome<T> outcome;
    const int me = channel.rank(), ranks = spec_.ranks;

    StageScope stage = channel.stage(Stage::announce);
    counts_[0] = input_error.word();
    co_await allreduce_control(channel, counts_.data(), 1, 1, scratch_.data());
    outcome.input_error = ErrorReport::of_word(counts_[0]);
    if (outcome.input_error) co_return outcome;

    stage.end();

    // Split and reduce.
    co_await space_.count_regions(channel, local, boundaries_, own_counts_.data());
    co_await split_.run(channel, local, boundaries_, own_counts_.data());
    coo::Segment<T> reduced = split_.reduced();

    stage.next(Stage::global_sizes);
    reduced.count = co_await space_.count_of(channel, reduced);
    const auto mine = static_cast<std::uint64_t>(reduced.count);
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                               reinterpret_cast<std::byte*>(counts_.data()), reinterpret_cast<std::byte*>(scratch_.data()));

    stage.next(Stage::allgatherv);
    for (int i = 0; i < ranks; ++i) offset_[at(i) + 1] = offset_[at(i)] + slot_of((me + i) % ranks);
    const Message gathered = staging_.at(gathered_.data(), 0);
    space_.encode(wire_of(me), reduced.indices, reduced.values, reduced.count, 0, range(me), gathered);
    space_.push(gathered, offset_[1]);
    co_await space_.done(channel);
    co_await allgatherv(channel, offset_, gathered.wire);

    space_.pull(gathered, offset_.back());
    std::int64_t total = 0;
    for (int r = 0; r < ranks; ++r) {
      space_.decode(wire_of(r), gathered.local + offset_[at((r - me + ranks) % ranks)], bytes_of(r), count(r),
                    static_cast<std::uint32_t>(boundaries_[at(r)]), range(r), indices_.data() + total, values_.data() + total);
      total += count(r);
    }
    space_.divide({values_.data(), nullptr, total}, spec_);
    outcome.update = {indices_.data(), values_.data(), total};
    if (spec_.wire_values != WireValues::native) {
      space_.subtract_rounded(spec_.wire_of_sums(), reduced);
      space_.shift(reduced, static_cast<std::uint32_t>(boundaries_[at(me)]));
      outcome.undelivered = {reduced.indices, reduced.values, reduced.count};
    }
    co_await space_.done(channel);
    co_return outcome;
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(spec_.ranks); }
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::int64_t largest_update() const { return std::min(spec_.count, spec_.ranks * spec_.largest_local); }
  [[nodiscard]] std::int64_t count(int rank) const { return static_cast<std::int64_t>(counts_[at(rank)]); }
  [[nodiscard]] std::uint64_t range(int rank) const { return boundaries_[at(rank) + 1] - boundaries_[at(rank)]; }
  /// The switch to dense belongs to the algorithm. It takes place even if plain coordinates are asked for.
  [[nodiscard]] wire::Wire wire_of(int rank) const {
    wire::Wire wire = spec_.wire_of_sums();
    const std::uint64_t coo_bytes = counts_[at(rank)] * coo::entry_bytes<T>;
    if (coo_bytes > range(rank) * sizeof(T)) wire.format = WireFormat::compact;
    return wire;
  }
  [[nodiscard]] std::int64_t slot_of(int rank) const { return wire::slot_bytes<T>(wire_of(rank), count(rank), range(rank)); }
  [[nodiscard]] std::int64_t bytes_of(int rank) const { return wire::message_bytes<T>(wire_of(rank), count(rank), range(rank)); }

  ExchangeSpec spec_;
  Space space_;
  SplitReduce<T, Space> split_;
  Boundaries boundaries_;
  std::vector<std::uint64_t> own_counts_, counts_, scratch_;  // my entries by region; those of all regions' sums
  std::vector<std::int64_t> offset_;                          // in gathered_, of the block of rank (me + i) mod P
  typename Space::template Array<std::byte> gathered_;
  typename Space::StagingBuffer staging_;
  typename Space::template Array<std::uint32_t> indices_;
  typename Space::template Array<T> values_;
};

}  // namespace weir
