// oktopk_one_round.hpp: Ok-Topk for small k P: every rank gets every rank's selection in one allgather, sums them in the order of
// the tree, and cuts the sum itself. The bits are the same as those of split and reduce.
//
// A rank sends ceil(log2 P) messages: (P - 1) times 16 bytes and room for k entries. Ranks must contribute at most k entries, with
// unrounded values: if values are rounded, or cut by a remembered threshold, the result of the other schedules depends on their
// regions. Once all messages have arrived nothing waits, so all plans compute their sums in the same memory.
#pragma once

#include "codec/wire.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/host_space.hpp"
#include "collectives/merge_tree.hpp"
#include "collectives/oktopk_state.hpp"

namespace weir {

template <class T>
class OkTopkOneRound {
 public:
  explicit OkTopkOneRound(const ExchangeSpec& spec)
      : spec_(spec),
        scratch_memory_(spec.scratch ? spec.scratch : std::make_shared<Scratch>()),
        space_(spec, spec.largest_local * spec.ranks, 2 * spec.ranks),
        tree_(space_, spec.ranks, spec.largest_local * spec.ranks, scratch_memory_.get()),
        update_indices_(spec.largest_local + select_padding),
        update_values_(spec.largest_local + select_padding),
        messages_(spec.ranks * slot_bytes(spec.largest_local)),
        counts_(static_cast<std::size_t>(spec.ranks)),
        offset_(static_cast<std::size_t>(spec.ranks) + 1) {}

  [[nodiscard]] std::int64_t memory_bytes() const {
    return space_.memory_bytes() + tree_.memory_bytes() + update_indices_.bytes() + update_values_.bytes() + messages_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, OkTopkState<T>& state, SparseVector<T> local, std::int64_t k,
                             ErrorReport input_error) {
    SparseOutcome<T> outcome;
    ++state.iteration;
    const int me = channel.rank(), ranks = spec_.ranks;
    const std::int64_t slot = slot_bytes(std::min(k, spec_.largest_local));

    // 1. every rank's selection and error to every rank; all slots are as large as the largest
    StageScope stage = channel.stage(Stage::allgatherv);
    const Header mine{input_error, local.count};
    std::memcpy(messages_.data(), &mine, sizeof mine);
    wire::encode(spec_.wire(), local.indices, local.values, local.count, 0, range(), messages_.data() + sizeof mine);
    for (int i = 0; i <= ranks; ++i) offset_[static_cast<std::size_t>(i)] = i * slot;
    co_await allgatherv(channel, offset_, messages_.data());

    // 2. the sum, in the order of the tree
    for (int r = 0; r < ranks; ++r) {
      Header theirs;
      std::memcpy(&theirs, message(r, me, slot), sizeof theirs);
      outcome.input_error = std::max(outcome.input_error, theirs.input_error);
      counts_[static_cast<std::size_t>(r)] = static_cast<std::uint32_t>(theirs.count);
    }
    if (outcome.input_error) co_return outcome;
    tree_.begin(counts_.data());
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t count = counts_[static_cast<std::size_t>(r)];
      if (count == 0) continue;
      const coo::Segment<T> leaf = tree_.leaf(r);
      wire::decode(spec_.wire(), message(r, me, slot) + sizeof(Header), wire::message_bytes<T>(spec_.wire(), count, range()), count,
                   0, range(), leaf.indices, leaf.values);
      tree_.arrived(r);
    }
    const coo::Segment<T> sum = tree_.root();
    if (tree_.total() == 0) co_return outcome;

    // 3. its k largest
    stage.next(Stage::global_threshold);
    const coo::Segment<T> to{update_values_.data(), update_indices_.data(), 0};
    const coo::Segment<T> update = keep_largest(sum, k, state.global_key, to);
    space_.divide(update, spec_);
    outcome.update = {update.indices, update.values, update.count};
    co_return outcome;
  }

 private:
  /// Precedes the entries of a message.
  struct Header {
    ErrorReport input_error;
    std::int64_t count = 0;
  };

  [[nodiscard]] std::uint64_t range() const { return static_cast<std::uint64_t>(spec_.count); }
  [[nodiscard]] std::int64_t slot_bytes(std::int64_t entries) const {
    return static_cast<std::int64_t>(sizeof(Header)) + wire::slot_bytes<T>(spec_.wire(), entries, range());
  }
  /// Returns the message of rank r. My own is first.
  [[nodiscard]] const std::byte* message(int r, int me, std::int64_t slot) const {
    return messages_.data() + (r - me + spec_.ranks) % spec_.ranks * slot;
  }

  ExchangeSpec spec_;
  std::shared_ptr<Scratch> scratch_memory_;
  HostSpace<T> space_;
  MergeTree<T, HostSpace<T>> tree_;
  Buffer<std::uint32_t> update_indices_;
  Buffer<T> update_values_;
  Buffer<std::byte> messages_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::int64_t> offset_;
};

}  // namespace weir
