// oktopk_in_node.hpp: Ok-Topk among ranks of one node that read each other's entries in shared memory. Nothing is sent. The bits
// are those of the other schedules.
//
// Ranks meet to show their selections. If these have few entries together, every rank sums and cuts all of them, as in one round.
// Otherwise, every rank sums a region. They meet for each histogram of cut_range(), mostly one, until only few entries are left
// that the cut may keep or not; and once more to show what it may keep of their regions. Every rank then finds the cut among these
// few. The regions are those that would have balanced the selections of the run before. If one of them has too many entries now,
// they are cut anew. They do not change the result.
//
// A rank shows its selections in two places by turns. While it starts a run, others may still read what it showed in the last run.
// But they have started that run, and so have ended the run before. What is kept of a region has one place: it is shown after the
// first meeting of a run, when all ranks have ended the last run.
//
// As in one round, ranks must contribute at most k entries, with unrounded values.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/allreduce.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/host_space.hpp"
#include "collectives/merge_tree.hpp"
#include "collectives/node_cards.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/oktopk_state.hpp"
#include "collectives/regions.hpp"

namespace weir {

template <class T>
class OkTopkInNode {
 public:
  /// Returns the bytes of shared memory that each rank needs.
  [[nodiscard]] static std::int64_t memory_for(const ExchangeSpec& spec) { return Layout(spec).end; }

  /// `spec.node_memory` has memory_for() bytes of each rank.
  explicit OkTopkInNode(const ExchangeSpec& spec)
      : spec_(spec),
        layout_(spec),
        cards_(spec.node_memory, layout_.card, *spec.topology),
        space_(spec, layout_.summed, 2 * spec.ranks),
        tree_(space_, spec.ranks, layout_.summed),
        boundaries_(size(1)),
        first_(size()),
        counts_(size()),
        update_indices_(spec.largest_local + select_padding),
        update_values_(spec.largest_local + select_padding),
        doubtful_(layout_.by_regions ? few_in_node : 0),
        kth_scratch_(layout_.by_regions ? kth_scratch : 0) {
    cards_.clear();
    uniform_boundaries(static_cast<std::uint64_t>(spec.count), boundaries_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return space_.memory_bytes() + tree_.memory_bytes() + update_indices_.bytes() + update_values_.bytes() + doubtful_.bytes() +
           kth_scratch_.bytes() + layout_.end;
  }

  task<SparseOutcome<T>> run(Channel channel, OkTopkState<T>& state, SparseVector<T> local, std::int64_t k,
                             ErrorReport input_error) {
    SparseOutcome<T> outcome;
    ++state.iteration;
    const int me = channel.rank();

    // 1. every rank shows its selection and error
    StageScope stage = channel.stage(Stage::announce);
    show_selection(me, local, input_error);
    cards_.publish();
    co_await channel.done(cards_);
    std::int64_t total = 0;
    for (int r = 0; r < spec_.ranks; ++r) {
      __builtin_prefetch(list_of(r).values);  // together with the card, not after it
      __builtin_prefetch(list_of(r).indices);
    }
    for (int r = 0; r < spec_.ranks; ++r) {
      outcome.input_error = std::max(outcome.input_error, ErrorReport::of_word(card(r)[error]));
      total += static_cast<std::int64_t>(card(r)[entries]);
    }
    if (outcome.input_error || total == 0) co_return outcome;

    // 2. the sum of all entries, or of those of my region, in the order of the tree
    stage.next(Stage::split_reduce);
    const bool alone = total <= few_in_node;
    find_parts(alone, me, total);
    if (layout_.by_regions) cut_regions();
    const coo::Segment<T> sum = sum_parts();
    const coo::Segment<T> to{update_values_.data(), update_indices_.data(), 0};
    if (alone) {
      stage.next(Stage::global_threshold);
      const coo::Segment<T> update = keep_largest(sum, k, state.global_key, to);
      space_.divide(update, spec_);
      outcome.update = {update.indices, update.values, update.count};
      co_return outcome;
    }

    // 3. the global threshold
    stage.next(Stage::global_threshold);
    const CutRange<T> range =
        co_await cut_range<T>(channel, space_, sum, k, state.global_key, few_in_node, kth_scratch_.data(), SumOfCards{cards_});

    // 4. every rank shows what the cut may keep of its region, finds the cut, and takes what it keeps of what the others show
    stage.next(Stage::allgatherv);
    show_region(me, sum, range);
    cards_.publish();
    co_await channel.done(cards_);
    const GlobalCut<T> cut = find_cut(range);
    state.global_key = static_cast<Key<T>>(cut.key + (cut.ties == 0 ? 1 : 0));
    const coo::Segment<T> update = gather(range, cut, to);
    space_.divide(update, spec_);
    outcome.update = {update.indices, update.values, update.count};
    co_return outcome;
  }

 private:
  // Words of a rank's card. If there are regions, its entries in each of them follow, and where it would divide the array: P - 1
  // places.
  enum Word : std::uint8_t { error, entries, first_count, shown = 0, in_doubt = 1 };

  /// Where things are in a rank's shared memory, in bytes, and for how many entries there is room.
  struct Layout {
    bool by_regions;  ///< there may be too many entries for every rank to sum all of them
    std::int64_t card, shown, list_bytes, doubtful, kept, end, listed, summed;

    explicit Layout(const ExchangeSpec& spec)
        : by_regions(spec.largest_local * spec.ranks > few_in_node),
          card(8 * std::max<std::int64_t>(first_count + 2 * spec.ranks, by_regions ? kth_words : 0)),
          shown(NodeCards::memory_for(card)),
          list_bytes(whole_lines(coo::block_bytes<T>(spec.largest_local))),
          doubtful(shown + 2 * list_bytes),
          kept(doubtful + whole_lines((few_in_node + select_padding) * static_cast<std::int64_t>(sizeof(T)))),
          end(doubtful),
          listed(spec.largest_local),
          summed(std::min(spec.largest_local * spec.ranks,
                          std::max(few_in_node, spec.largest_local + spec.largest_local / 2 + 2 * spec.ranks + 2))) {
      if (by_regions) end = kept + whole_lines(coo::block_bytes<T>(most_kept() + select_padding));
    }
    /// Returns the most entries that the cut may keep of a region: the ranks together show those that it keeps, at most k, which is
    /// at most `listed`, and some of those in doubt.
    [[nodiscard]] std::int64_t most_kept() const { return std::min(summed, listed + few_in_node); }
  };

  /// Sums words over the ranks.
  struct SumOfCards {
    NodeCards& cards;

    task<void> operator()(Channel channel, std::uint64_t* words, std::int64_t count, std::uint64_t* /*scratch*/) const {
      std::copy_n(words, count, reinterpret_cast<std::uint64_t*>(cards.mine()));
      cards.publish();
      co_await channel.done(cards);
      std::fill_n(words, count, 0);
      for (int r = 0; r < channel.size(); ++r) {
        const std::uint64_t* const theirs = &cards.template of<std::uint64_t>(r);
        for (std::int64_t i = 0; i < count; ++i) words[i] += theirs[i];
      }
    }
  };

  [[nodiscard]] std::size_t size(int more = 0) const { return static_cast<std::size_t>(spec_.ranks + more); }
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::uint64_t* mine() const { return reinterpret_cast<std::uint64_t*>(cards_.mine()); }
  [[nodiscard]] const std::uint64_t* card(int rank) const { return &cards_.template of<std::uint64_t>(rank); }
  [[nodiscard]] coo::Segment<T> list_of(int rank) const {
    return coo::view<T>(spec_.node_memory.of(rank) + layout_.shown + shown_ * layout_.list_bytes, layout_.listed);
  }
  /// Returns the memory of what is kept of a rank's region. `count` is how many entries it has.
  [[nodiscard]] coo::Segment<T> kept_of(int rank, std::int64_t count) const {
    coo::Segment<T> kept = coo::view<T>(spec_.node_memory.of(rank) + layout_.kept, layout_.most_kept() + select_padding);
    kept.count = count;
    return kept;
  }

  void show_selection(int me, SparseVector<T> local, ErrorReport input_error) {
    shown_ = 1 - shown_;
    space_.copy_shifted(local, 0, list_of(me));
    std::uint64_t* const words = mine();
    words[error] = input_error.word();
    words[entries] = static_cast<std::uint64_t>(local.count);
    if (!layout_.by_regions) return;
    kernels::host::count_regions(local.indices, local.count, boundaries_.data(), spec_.ranks, words + first_count);
    std::uint64_t* const cuts = words + first_count + spec_.ranks;
    if (local.count == 0) return uniform_cuts(static_cast<std::uint64_t>(spec_.count), spec_.ranks, cuts);
    for (int j = 1; j < spec_.ranks; ++j) cuts[j - 1] = local.indices[local.count * j / spec_.ranks];
  }

  /// Sets first_ and counts_ to the part of each rank's list that this rank sums: all of it, or its region.
  void find_parts(bool alone, int me, std::int64_t total) {
    if (!alone && largest_region() > layout_.summed) return divide_evenly(me, total);
    for (int r = 0; r < spec_.ranks; ++r) {
      const std::uint64_t* const in_region = card(r) + first_count;
      first_[at(r)] = alone ? 0 : static_cast<std::int64_t>(std::accumulate(in_region, in_region + me, std::uint64_t{0}));
      counts_[at(r)] = static_cast<std::uint32_t>(alone ? card(r)[entries] : in_region[me]);
    }
  }
  /// Sets the regions of the next run.
  void cut_regions() {
    for (int j = 1; j < spec_.ranks; ++j) {
      std::uint64_t cut = 0;
      for (int r = 0; r < spec_.ranks; ++r) cut += card(r)[first_count + spec_.ranks + j - 1];
      boundaries_[at(j)] = cut / static_cast<std::uint64_t>(spec_.ranks);
    }
  }
  [[nodiscard]] std::int64_t largest_region() const {
    std::uint64_t largest = 0;
    for (int j = 0; j < spec_.ranks; ++j) {
      std::uint64_t of_all = 0;
      for (int r = 0; r < spec_.ranks; ++r) of_all += card(r)[first_count + j];
      largest = std::max(largest, of_all);
    }
    return static_cast<std::int64_t>(largest);
  }
  /// Sets first_ and counts_ for region `me` of P that have as many entries each, as far as entries of one index allow.
  void divide_evenly(int me, std::int64_t total) {
    const std::uint64_t begin = boundary(me, total), end = boundary(me + 1, total);
    for (int r = 0; r < spec_.ranks; ++r) {
      first_[at(r)] = below(r, begin);
      counts_[at(r)] = static_cast<std::uint32_t>(below(r, end) - first_[at(r)]);
    }
  }
  /// Returns the first index of a region. All ranks compute the same.
  [[nodiscard]] std::uint64_t boundary(int region, std::int64_t total) const {
    const auto before = static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(total), region, spec_.ranks));
    std::uint64_t low = 0, high = static_cast<std::uint64_t>(spec_.count);
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      std::int64_t entries_below = 0;
      for (int r = 0; r < spec_.ranks; ++r) entries_below += below(r, middle);
      if (entries_below < before)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  [[nodiscard]] std::int64_t below(int rank, std::uint64_t index) const {
    const coo::Segment<T> list = list_of(rank);
    const auto count = static_cast<std::int64_t>(card(rank)[entries]);
    return std::lower_bound(list.indices, list.indices + count, index) - list.indices;
  }

  coo::Segment<T> sum_parts() {
    tree_.begin(counts_.data());
    for (int r = 0; r < spec_.ranks; ++r) {
      if (counts_[at(r)] == 0) continue;
      const coo::Segment<T> list = list_of(r);
      tree_.lend(r, list.values + first_[at(r)], list.indices + first_[at(r)]);
      tree_.arrived(r);
    }
    return tree_.root();
  }

  /// Returns the memory for the values of a rank's region that are in doubt.
  [[nodiscard]] T* doubtful_of(int rank) const { return reinterpret_cast<T*>(spec_.node_memory.of(rank) + layout_.doubtful); }

  /// Shows the entries of my region that the cut may keep. Those with keys inside the range are in doubt, unless it takes all.
  void show_region(int me, coo::Segment<T> sum, CutRange<T> range) {
    const coo::Segment<T> kept = kept_of(me, 0);
    std::int64_t count = 0, doubts = 0;
    if (!range.takes_all() && range.is_one_key()) {
      const CutCounts counts = kernels::host::count_cut(sum.values, sum.count, range.low);
      doubts = std::min(counts.equal, static_cast<std::int64_t>(range.wanted));  // of equal values, the first come first
      count = space_.keep(sum, range.low, doubts, counts.above + doubts, kept).count;
    } else {
      Band<T> band{range.low, static_cast<Key<T>>(range.low - 1), 0, 0};
      count = kernels::host::select_band<T>(sum.indices, sum.values, sum.count, band, kept.indices, kept.values, nullptr, 0);
      if (!range.takes_all()) doubts = kernels::host::values_within(kept.values, count, range.low, range.high, doubtful_of(me));
    }
    mine()[shown] = static_cast<std::uint64_t>(count);
    mine()[in_doubt] = static_cast<std::uint64_t>(doubts);
  }

  /// Returns the cut: the last of those wanted among all values in doubt. The same on every rank.
  [[nodiscard]] GlobalCut<T> find_cut(CutRange<T> range) {
    if (range.is_known()) return range.cut();
    std::int64_t count = 0;
    for (int r = 0; r < spec_.ranks; ++r) {
      std::copy_n(doubtful_of(r), card(r)[in_doubt], doubtful_.data() + count);
      count += static_cast<std::int64_t>(card(r)[in_doubt]);
    }
    return range.cut_among(doubtful_.data());
  }

  /// Copies what the cut keeps of what all ranks show. Of entries on the cut, those of lower ranks come first.
  coo::Segment<T> gather(CutRange<T> range, GlobalCut<T> cut, coo::Segment<T> to) {
    coo::Segment<T> end = to;
    auto ties = static_cast<std::int64_t>(cut.ties);
    for (int r = 0; r < spec_.ranks; ++r) {
      const coo::Segment<T> theirs = kept_of(r, static_cast<std::int64_t>(card(r)[shown]));
      const auto doubts = static_cast<std::int64_t>(card(r)[in_doubt]);
      const CutCounts counts =
          range.is_one_key() ? CutCounts{0, doubts} : kernels::host::count_cut(doubtful_of(r), doubts, cut.key);
      const std::int64_t taken = std::min(ties, counts.equal), kept = theirs.count - doubts + counts.above + taken;
      if (kept == theirs.count)
        static_cast<void>(space_.copy(theirs, end));
      else
        static_cast<void>(space_.keep(theirs, cut.key, taken, kept, end));
      ties -= taken;
      end.values += kept;
      end.indices += kept;
      to.count += kept;
    }
    return to;
  }

  ExchangeSpec spec_;
  Layout layout_;
  NodeCards cards_;
  HostSpace<T> space_;
  MergeTree<T, HostSpace<T>> tree_;
  int shown_ = 1;
  Boundaries boundaries_;
  std::vector<std::int64_t> first_;
  std::vector<std::uint32_t> counts_;
  Buffer<std::uint32_t> update_indices_;
  Buffer<T> update_values_, doubtful_;
  Buffer<std::uint64_t> kth_scratch_;
};

}  // namespace weir
