// allreduce_hi_oktopk.hpp: Ok-Topk by switch group: one oktopk in every group, then one among the groups on what these select.
//
// It delivers Topk over the groups' sum of Topk over a group's sum of its ranks' contributions. The k of the second Topk is shared
// out among parts of the index space, by the number of entries that the groups have in each (share_by_counts).
//
// The entries that a group sends to others are bounded, whatever the number of its ranks. Let u be the entries selected in a group:
// at most k, or 1.25 k if the selection is an estimate. Its owners together send at most u entries in split-and-reduce, since each
// sends entries of its own part. For a part's k_p they send at most 2 k_p (G - 1) / G in balance and allgatherv. The k_p add up to
// k_across_groups(k, u, G), so the total is 3 k entries. See hi_oktopk_switch_words() in oktopk_volume.hpp.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/oktopk_schedules.hpp"
#include "collectives/switch_groups.hpp"

namespace weir {

template <class T>
class HiOkTopk final : public SparseAllreduce<T> {
 public:
  HiOkTopk(const ExchangeSpec& spec, std::shared_ptr<const SwitchGroups> groups)
      : groups_(std::move(groups)),
        parts_(spec.count, groups_->parts(), groups_->mine(), groups_->members(), groups_->counterparts()),
        group_(make_oktopk<T>(spec_of_group(spec, *groups_), schedules_of(spec, OkTopkExchange::switch_group))),
        allgather_(parts_, std::min(parts_.size(0), largest_update(spec)), largest_update(spec), spec, Gathering::doubling),
        words_(2 * (word_counts + groups_->parts())),
        undelivered_indices_(most_kept(spec)),
        undelivered_values_(most_kept(spec)) {
    if (parts_.mine() < 0) return;
    // The direct schedule is needed: owners have more entries than the k of their part.
    across_ = make_oktopk<T>(spec_across(spec, *groups_, parts_), {});
    part_indices_ = Buffer<std::uint32_t>(std::min(parts_.size(parts_.mine()), largest_update(spec)));
  }

  void reset() override {
    state_ = {};
    group_->reset();
    if (across_) across_->reset();
  }
  void scale(double factor) override {
    group_->scale(factor);
    if (across_) across_->scale(factor);
  }
  void visit_state(StateVisitor& visitor) override {
    visitor.along_switches();
    visitor.state(state_);
    {
      const StateVisitor::Scope scope(visitor, "group");
      group_->visit_state(visitor);
    }
    if (!across_) return;
    const StateVisitor::Scope scope(visitor, "across");
    Placement part = visitor.placement();
    part.region.first_row += parts_.begin(parts_.mine());
    part.region.rows = parts_.size(parts_.mine());
    const StateVisitor::Placed placed(visitor, part);
    across_->visit_state(visitor);
  }
  [[nodiscard]] Explanation explanation() const override {
    Explanation text = group_->explanation();
    text.how += "; among switch groups: direct";
    return text;
  }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    return group_->memory_bytes() + (across_ ? across_->memory_bytes() : 0) + allgather_.memory_bytes() + words_.bytes() +
           part_indices_.bytes() + undelivered_indices_.bytes() + undelivered_values_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, ErrorReport input_error) override {
    const std::int64_t iteration = state_.iteration;

    // 1. the group's sum and its k largest entries, at all ranks of the group
    const SparseOutcome<T> group = co_await group_->run(channel.group(groups_->members()), local, k, input_error);

    // 2. my part of them, among the groups
    SparseOutcome<T> part;
    part.input_error = group.input_error;
    if (across_) part = co_await exchange_part(channel.group(groups_->counterparts()), group, k, iteration);

    // 3. all parts at all ranks of the group
    SparseOutcome<T> outcome;
    {
      const StageScope stage = channel.stage(Stage::allgatherv);
      outcome = co_await allgather_.run(channel.group(groups_->members()), part);
    }
    if (!outcome.input_error) {
      ++state_.iteration;
      outcome.undelivered = undelivered(local, group, part, outcome.update);
    }
    co_return outcome;
  }

 private:
  /// Holds what is kept between runs, besides the state of the two stages.
  struct State {
    std::int64_t iteration = 0;  ///< number of runs that delivered

    void visit(StateVisitor& visitor) {
      visitor.value("iteration", iteration);
      visitor.check(iteration >= 0, "iteration", "at least 0");
    }
  };
  /// What owners of a part exchange: maxima over the groups, then the sum of the entries in each part.
  enum Word : int {
    word_error,
    word_largest,
    word_counted,
    word_counts = word_counted + std::tuple_size_v<decltype(oktopk_counters)>
  };

  [[nodiscard]] static std::int64_t largest_update(const ExchangeSpec& spec) { return std::min(spec.count, spec.largest_local); }
  /// Returns the most entries kept: my own that my group dropped, and what rounding took from sums of mine in either stage.
  [[nodiscard]] static std::int64_t most_kept(const ExchangeSpec& spec) {
    const bool rounds = spec.wire_values != WireValues::native;
    return spec.largest_local + (rounds ? 2 * largest_update(spec) : 0);
  }

  [[nodiscard]] static ExchangeSpec spec_of_group(const ExchangeSpec& whole, const SwitchGroups& groups) {
    ExchangeSpec spec = whole;
    spec.memory = MemorySpace::host;
    spec.ranks = static_cast<int>(groups.members().size());
    spec.most_ranks = groups.largest_group();
    spec.divisor = 1;
    return spec;
  }
  /// The cut among groups is exact in every mode of selection. All entries may lie in one part, so the bound of its k also bounds
  /// its entries.
  [[nodiscard]] static ExchangeSpec spec_across(const ExchangeSpec& whole, const SwitchGroups& groups, const ShardMap& parts) {
    ExchangeSpec spec = whole;
    spec.count = parts.size(parts.mine());
    spec.memory = MemorySpace::host;
    spec.largest_k = spec.largest_local = std::min(spec.count, largest_update(whole));
    spec.ranks = groups.groups();
    spec.divisor = 1;
    spec.summed = whole.summed * groups.largest_group();
    spec.reuse_period = 0;
    spec.at_most_k = false;
    return spec;
  }

  task<SparseOutcome<T>> exchange_part(Channel channel, const SparseOutcome<T>& group, std::int64_t k, std::int64_t iteration) {
    const int mine = parts_.mine();
    const auto count_words = static_cast<std::size_t>(parts_.shards());
    const std::span<std::uint64_t> counts(words_.data() + word_counts, count_words);
    SparseOutcome<T> part;
    {
      const StageScope stage = channel.stage(Stage::announce);
      words_[word_error] = group.input_error.word();
      words_[word_largest] = static_cast<std::uint64_t>(group.update.count);
      for (std::size_t i = 0; i < oktopk_counters.size(); ++i) words_[word_counted + i] = group.counted >> i & 1;
      for (int p = 0; p < parts_.shards(); ++p)
        counts[static_cast<std::size_t>(p)] = static_cast<std::uint64_t>(within(group.update, p).count);
      const std::int64_t words = word_counts + parts_.shards();
      co_await allreduce_control(channel, words_.data(), words, word_counts, words_.data() + words);
    }
    if (words_[word_error] == 0) {
      const std::int64_t k_of_all = k_across_groups(k, static_cast<std::int64_t>(words_[word_largest]), groups_->groups());
      const std::int64_t share = share_by_counts(k_of_all, counts, mine, iteration);
      if (share > 0) {
        SparseVector<T> entries = within(group.update, mine);
        kernels::host::shift_indices(entries.indices, entries.count, 0 - static_cast<std::uint32_t>(parts_.begin(mine)),
                                     part_indices_.data());
        entries.indices = part_indices_.data();
        part = co_await across_->run(channel, entries, share, ErrorReport());
      }
    }
    part.input_error = ErrorReport::of_word(words_[word_error]);
    for (std::size_t i = 0; i < oktopk_counters.size(); ++i)
      part.counted |= static_cast<std::uint32_t>(words_[word_counted + i]) << i;
    co_return part;
  }

  /// Returns the entries of part p.
  [[nodiscard]] SparseVector<T> within(SparseVector<T> entries, int p) const {
    return entries_between(entries, parts_.begin(p), parts_.begin(p + 1));
  }

  /// Returns the entries that this rank gets back: those dropped in the group but delivered because of other groups. The plan still
  /// holds entries that are not delivered at all.
  SparseVector<T> undelivered(SparseVector<T> local, const SparseOutcome<T>& group, const SparseOutcome<T>& part,
                              SparseVector<T> update) {
    std::uint32_t* const indices = undelivered_indices_.data();
    T* const values = undelivered_values_.data();
    const std::int64_t delivered = keep_taken(local, update, indices, values);
    std::int64_t count = drop_taken({indices, values, delivered}, group.update, indices, values);
    count += keep_taken(group.undelivered, update, indices + count, values + count);
    if (part.undelivered.count > 0) {
      std::copy_n(part.undelivered.values, part.undelivered.count, values + count);
      kernels::host::shift_indices(part.undelivered.indices, part.undelivered.count,
                                   static_cast<std::uint32_t>(parts_.begin(parts_.mine())), indices + count);
      count += part.undelivered.count;
    }
    return {indices, values, count};
  }

  /// Keeps, unlike keep_taken, the entries whose index is not in `taken`.
  static std::int64_t drop_taken(SparseVector<T> list, SparseVector<T> taken, std::uint32_t* indices, T* values) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0, t = 0; i < list.count; ++i) {
      while (t < taken.count && taken.indices[t] < list.indices[i]) ++t;
      if (t < taken.count && taken.indices[t] == list.indices[i]) continue;
      indices[kept] = list.indices[i];
      values[kept++] = list.values[i];
    }
    return kept;
  }

  const std::shared_ptr<const SwitchGroups> groups_;
  const ShardMap parts_;
  State state_;
  std::unique_ptr<SparseAllreduce<T>> group_;
  std::unique_ptr<SparseAllreduce<T>> across_;  // only on owners of a part; null on others
  NodeAllgather<T> allgather_;
  Buffer<std::uint64_t> words_;
  Buffer<std::uint32_t> part_indices_;
  Buffer<std::uint32_t> undelivered_indices_;
  Buffer<T> undelivered_values_;
};

}  // namespace weir
