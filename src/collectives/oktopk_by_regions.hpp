// oktopk_by_regions.hpp: Ok-Topk, the O(k) sparse allreduce: Li and Hoefler, PPoPP 2022, Algorithm 1, with the direct or the phased
// schedule. Step numbers below are ours; the paper's lines are named.
//
// The two schedules differ only in split and reduce: the phased one takes about r log P messages instead of P (phased_reduce.hpp).
// If it would carry more entries than its bound, the iteration is direct.
//
// Beyond the paper: boundaries that turn out unbalanced are re-cut at once, the global threshold comes from small histograms and
// few values, mode `exact` delivers exactly Topk(sum Topk(G)), sums do not depend on region boundaries, the volume bound of 3 k
// entries holds on any input, and what travels is encoded.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "base/state.hpp"
#include "codec/wire.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/host_space.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/oktopk_schedules.hpp"
#include "collectives/oktopk_state.hpp"
#include "collectives/phased_reduce.hpp"
#include "collectives/regions.hpp"
#include "collectives/split_reduce.hpp"

namespace weir {

template <class T, class Space>
class OkTopkByRegions {
 public:
  OkTopkByRegions(const ExchangeSpec& spec, std::span<const ScheduleUpTo> schedules)
      : spec_(spec),
        parameters_(spec.parameters),
        ranks_(spec.ranks),
        result_capacity_(std::min(spec.count, spec.largest_local)),
        space_(spec, std::max(spec.largest_local, region_capacity(spec)), 2 * spec.ranks),
        split_(space_, {.ranks = ranks_,
                        .largest_local = std::max(spec.largest_local, result_capacity_),
                        .region_capacity = region_capacity(spec),
                        .window = parameters_.window,
                        .wire = spec.wire()}),
        index_copy_(spec.largest_local),
        own_counts_(size()),
        cut_scratch_(std::max({recut_scratch(ranks_), kth_scratch, std::int64_t{2} * ranks_})),
        few_(Space::asynchronous || reuse() ? 0 : few_in_messages(ranks_)),
        cards_((2 * ranks_ + 1) * card_bytes(few_)),
        doubtful_(few_ + select_padding),
        sizes_(size()),
        selected_counts_(size()),
        prefix_(2 * size() + 1),
        held_(size(1)),
        offset_(size(1)),
        requests_(2 * size()),
        result_indices_(result_capacity_),
        result_values_(result_capacity_) {
    if constexpr (!Space::asynchronous) {
      typename PhasedReduce<T>::Setup setup{.ranks = ranks_, .wire = spec.wire()};
      for (const auto& [largest_k, choice] : schedules) {
        if (choice.schedule != ExchangeSchedule::phased || ranks_ == 1) continue;
        setup.radix = choice.radix;
        setup.largest_k = largest_k;
      }
      if (setup.largest_k > 0) phased_.emplace(space_, setup);
    }
    words_ = Buffer<std::uint64_t>(2 * (1 + (phased_ ? phased_->phases() : 0) + ranks_));
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return space_.memory_bytes() + split_.memory_bytes() + (phased_ ? phased_->memory_bytes() : 0) + result_indices_.bytes() +
           result_values_.bytes() + index_copy_.bytes() + words_.bytes() + cut_scratch_.bytes() + cards_.bytes() +
           doubtful_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, OkTopkState<T>& state, SparseVector<T> local, std::int64_t k, ErrorReport input_error,
                             ExchangeSchedule schedule) {
    SparseOutcome<T> outcome;
    state_ = &state;
    by_phases_ = phased_ && schedule == ExchangeSchedule::phased;
    const std::int64_t iteration = state.iteration++;

    // 1. region boundaries, every tau iterations (lines 5-7)
    if (iteration % parameters_.boundary_period == 0) {
      const StageScope stage = channel.stage(Stage::average_boundaries);
      if (local.count > 0)
        co_await space_.quantiles(channel, local, ranks_, cut_scratch_.data());
      else
        uniform_cuts(n(), ranks_, cut_scratch_.data());
      co_await average_boundaries(channel, state_->boundaries, cut_scratch_.data());
    }

    // 2. announce: errors, region sizes, and what ranks would carry in the phases; unbalanced regions are re-cut at once
    StageScope stage = channel.stage(Stage::announce);
    co_await announce(channel, local, input_error);
    outcome.input_error = ErrorReport::of_word(words_[0]);
    if (outcome.input_error) co_return outcome;
    const std::uint64_t* const region_totals = words_.data() + maxima();
    const std::uint64_t total = std::accumulate(region_totals, region_totals + ranks_, std::uint64_t{0});
    if (total == 0) co_return outcome;
    if (*std::max_element(region_totals, region_totals + ranks_) > balanced_region_limit(total / at(ranks_), k)) {
      stage.next(Stage::recut);
      const auto indices = co_await space_.indices_of(channel, local, index_copy_);
      co_await recut_boundaries(channel, indices, total, n(), state_->boundaries, cut_scratch_.data());
      if (by_phases_)
        co_await announce(channel, local, ErrorReport());
      else
        co_await space_.count_regions(channel, local, state_->boundaries, own_counts_.data());
      outcome.counted |= counted_recut;
    }

    stage.end();

    // 3. split and reduce (line 8)
    by_phases_ = by_phases_ && phased_->carries(k, words_.data() + 1, region_totals);
    if (by_phases_)
      co_await phased_->run(channel, local, state_->boundaries);
    else
      co_await split_.run(channel, local, state_->boundaries, own_counts_.data());

    // 4. global threshold (lines 9-12) and every rank's share of the selection
    co_await select_global(channel, k, iteration, outcome);

    // 5. balance and allgatherv (line 13)
    const bool balances = must_balance();
    lay_out_blocks(channel.rank(), balances);
    if (balances) {
      outcome.counted |= counted_balanced;
      co_await balance(channel);
    } else {
      encode_selected(channel.rank(), 0, selected_.count, gathered());
      space_.push(gathered(), offset_[1]);
      co_await space_.done(channel);
    }
    stage.next(Stage::allgatherv);
    co_await allgatherv(channel, offset_, gathered().wire);
    outcome.update = decode(channel.rank(), balances);
    outcome.undelivered = rounding_loss(channel.rank());
    co_await space_.done(channel);
    co_return outcome;
  }

 private:
  struct Sizes {
    std::uint32_t above = 0;       // entries of my region above the cut; while it is in doubt: above the range
    std::uint32_t equal = 0;       // those on the cut; while it is in doubt: inside the range
    std::uint32_t split_sent = 0;  // entries that I sent in split-and-reduce
  };
  /// Returns the bytes of a rank's card: its Sizes, and `doubtful` values.
  [[nodiscard]] static std::int64_t card_bytes(std::int64_t doubtful) {
    return static_cast<std::int64_t>(sizeof(Sizes)) + doubtful * static_cast<std::int64_t>(sizeof(T));
  }
  /// The entries [begin, end) of the update.
  struct Range {
    std::uint64_t begin, end;
    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(end - begin); }
  };

  [[nodiscard]] std::size_t size(int more = 0) const { return static_cast<std::size_t>(ranks_ + more); }
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::uint64_t n() const { return static_cast<std::uint64_t>(spec_.count); }
  [[nodiscard]] bool reuse() const { return spec_.reuse_period > 0; }

  /// Returns how many of words_ are maxima over the ranks. The sizes of regions follow.
  [[nodiscard]] int maxima() const { return 1 + (by_phases_ ? phased_->phases() : 0); }

  /// Sets words_ to the largest error, the most that a rank would carry in each phase, and the entries of every region.
  task<void> announce(Channel channel, SparseVector<T> local, ErrorReport input_error) {
    co_await space_.count_regions(channel, local, state_->boundaries, own_counts_.data());
    const int words = maxima() + ranks_;
    words_[0] = input_error.word();
    if (by_phases_) phased_->largest_parts(own_counts_.data(), words_.data() + 1);
    std::copy(own_counts_.begin(), own_counts_.end(), words_.data() + maxima());
    co_await allreduce_control(channel, words_.data(), words, maxima(), words_.data() + words);
  }

  // Above this limit a region is re-cut. The limit is relative to the smaller of the mean and k, so that a rank receives less than
  // 3 k entries even in mode `reuse`, in which ranks contribute up to 1.25 k.
  [[nodiscard]] std::uint64_t balanced_region_limit(std::uint64_t mean, std::int64_t k) const {
    const std::uint64_t base = std::min(mean, static_cast<std::uint64_t>(k));
    return base + base / 2 + at(ranks_);
  }

  // Holds regions within balanced_region_limit, and re-cut ones, which exceed a mean of at most 1.25 k by an eighth.
  [[nodiscard]] static std::int64_t region_capacity(const ExchangeSpec& spec) {
    const std::int64_t everything = spec.largest_local * spec.ranks;
    return std::min(everything, spec.largest_k + spec.largest_k / 2 + 2 * spec.ranks + 2);
  }

  /// Returns the memory of the update in transit: that of the reduced region, which is free once the selection is out of it.
  [[nodiscard]] Message gathered() { return split_.spent(); }

  task<void> select_global(Channel channel, std::int64_t k, std::int64_t iteration, SparseOutcome<T>& outcome) {
    const coo::Segment<T> reduced = by_phases_ ? phased_->reduced() : split_.reduced();
    const bool reevaluate = !reuse() || state_->global_key == 0 || iteration % spec_.reuse_period == 0;
    GlobalCut<T> cut;
    if (reevaluate) {
      cut = co_await find_cut(channel, reduced, k, outcome);
    } else {
      cut = co_await share_sizes(channel, reduced, from_key(state_->global_key));
      const auto target = static_cast<std::uint64_t>(k);
      const std::uint64_t selected = std::accumulate(selected_counts_.begin(), selected_counts_.end(), std::uint64_t{0});
      const bool too_few = 5 * selected < 4 * target && cut.key > 0;  // a cut at 0 takes all entries
      if (too_few || 4 * selected > 5 * target) cut = co_await find_cut(channel, reduced, k, outcome);
    }
    if (spec_.largest_local > spec_.largest_k) {
      // Only if ranks contributed more than k and the sum is skewed as well: deliver a little less instead of sending more than 3 k
      // entries.
      const std::uint64_t budget = 3 * static_cast<std::uint64_t>(k);
      const std::uint64_t split = most_split_sent();
      if (ranks_ > 1 &&
          split + std::min(allgatherv_max_sent(selected_counts_, prefix_), balanced_max_sent(selected_counts_)) > budget) {
        const std::uint64_t reduced_k = (budget - split) * at(ranks_) / (2 * at(ranks_ - 1));
        cut = co_await find_cut(channel, reduced, std::min(k, std::max<std::int64_t>(1, static_cast<std::int64_t>(reduced_k))),
                                outcome);
      }
    }

    const auto mine = static_cast<std::int64_t>(selected_counts_[at(channel.rank())]);
    const std::int64_t ties = mine - sizes_[at(channel.rank())].above;
    selected_ = space_.keep(reduced, cut.key, ties, mine, by_phases_ ? phased_->spare() : split_.spare());
  }

  /// Finds the cut that selects the k largest entries of all regions. Sets selected_counts_ as share_sizes() does.
  task<GlobalCut<T>> find_cut(Channel channel, coo::Segment<T> reduced, std::int64_t k, SparseOutcome<T>& outcome) {
    StageScope stage = channel.stage(Stage::global_threshold);
    const CutRange<T> range = co_await cut_range<T>(channel, space_, reduced, k, state_->global_key,
                                                    static_cast<std::uint64_t>(few_), cut_scratch_.data());
    stage.end();
    const GlobalCut<T> cut = co_await share_sizes(channel, reduced, range);
    state_->global_key = static_cast<Key<T>>(cut.key + (cut.ties == 0 ? 1 : 0));
    if (reuse()) outcome.counted |= counted_rethresholded;
    co_return cut;
  }

  /// Returns a range whose cut is known: it takes all entries with this key or a larger one.
  [[nodiscard]] static CutRange<T> from_key(Key<T> key) { return {key, std::numeric_limits<Key<T>>::max(), 0, 0}; }

  /// Returns the cut that lies in `range`. Sets selected_counts_[r] to the number of entries of region r that it selects. Of equal
  /// entries, those of lower ranks come first: their regions have lower indices.
  task<GlobalCut<T>> share_sizes(Channel channel, coo::Segment<T> reduced, CutRange<T> range) {
    const StageScope stage = channel.stage(Stage::global_sizes);
    const bool known = range.is_known();
    const Key<T> key = known ? range.cut().key : range.high;
    const CutCounts counts = co_await space_.count_cut(channel, reduced, key);
    Sizes mine{static_cast<std::uint32_t>(counts.above), static_cast<std::uint32_t>(counts.equal),
               by_phases_ ? 0 : split_.sent(channel.rank())};
    const std::int64_t bytes = card_bytes(known ? 0 : static_cast<std::int64_t>(range.inside));
    std::byte* const all = cards_.data() + bytes;
    if constexpr (!Space::asynchronous) {
      if (!known) show_doubtful(reduced, range, mine);
    }
    std::memcpy(cards_.data(), &mine, sizeof mine);
    co_await allgather_control(channel, cards_.data(), bytes, all, all + ranks_ * bytes);
    for (int r = 0; r < ranks_; ++r) std::memcpy(&sizes_[at(r)], all + r * bytes, sizeof(Sizes));
    const GlobalCut<T> cut = known ? range.cut() : cut_among_shown(range, all, bytes);
    std::uint64_t ties = cut.ties;
    for (int r = 0; r < ranks_; ++r) {
      const std::uint64_t taken = std::min<std::uint64_t>(ties, sizes_[at(r)].equal);
      selected_counts_[at(r)] = sizes_[at(r)].above + taken;
      ties -= taken;
    }
    co_return cut;
  }

  /// Copies the values of my region inside the range to my card. Sets mine.equal to their number.
  void show_doubtful(coo::Segment<T> reduced, CutRange<T> range, Sizes& mine) {
    const std::int64_t count = kernels::host::values_within(reduced.values, reduced.count, range.low, range.high, doubtful_.data());
    std::fill(doubtful_.data() + count, doubtful_.data() + range.inside, T{0});
    std::memcpy(cards_.data() + sizeof(Sizes), doubtful_.data(), range.inside * sizeof(T));
    mine.equal = static_cast<std::uint32_t>(count);
  }

  /// Returns the cut among the values on all cards. Then counts them in sizes_ as above the cut or on it.
  GlobalCut<T> cut_among_shown(CutRange<T> range, const std::byte* all, std::int64_t bytes) {
    T* end = doubtful_.data();
    for (int r = 0; r < ranks_; ++r) {
      std::memcpy(end, all + r * bytes + sizeof(Sizes), sizes_[at(r)].equal * sizeof(T));
      end += sizes_[at(r)].equal;
    }
    const GlobalCut<T> cut = range.cut_among(doubtful_.data());
    const T* theirs = doubtful_.data();
    for (Sizes& sizes : sizes_) {
      const CutCounts counts = kernels::host::count_cut(theirs, std::int64_t{sizes.equal}, cut.key);
      theirs += sizes.equal;
      sizes.above += static_cast<std::uint32_t>(counts.above);
      sizes.equal = static_cast<std::uint32_t>(counts.equal);
    }
    return cut;
  }

  [[nodiscard]] std::uint64_t most_split_sent() const {
    return std::max_element(sizes_.begin(), sizes_.end(),
                            [](const Sizes& a, const Sizes& b) { return a.split_sent < b.split_sent; })
        ->split_sent;
  }

  // Balances at the paper's trigger (largest above 4 x the mean), and to keep the volume bound, which skew below that trigger would
  // break for many ranks.
  [[nodiscard]] bool must_balance() {
    const std::uint64_t selected = std::accumulate(selected_counts_.begin(), selected_counts_.end(), std::uint64_t{0});
    const std::uint64_t largest = *std::max_element(selected_counts_.begin(), selected_counts_.end());
    if (static_cast<double>(largest) * ranks_ > parameters_.balance_trigger * static_cast<double>(selected)) return true;
    const std::uint64_t unbalanced = allgatherv_max_sent(selected_counts_, prefix_);
    return unbalanced * at(ranks_) > 2 * selected * at(ranks_ - 1) && unbalanced > balanced_max_sent(selected_counts_);
  }

  /// Returns what rank r gives to the allgatherv: its region's selection, or the r-th of P equal parts of all.
  [[nodiscard]] Range block(int r, bool balanced) const {
    const std::uint64_t total = held_.back();
    return balanced ? Range{part_begin(total, r, ranks_), part_begin(total, r + 1, ranks_)} : Range{held_[at(r)], held_[at(r) + 1]};
  }

  /// Calls f(region, piece) for the entries of `range` in each region, in order. A piece is encoded as one: its size follows from
  /// its count and its region.
  template <class F>
  void for_pieces(Range range, F f) const {
    int region = 0;
    while (range.begin < range.end) {
      while (held_[at(region) + 1] <= range.begin) ++region;
      const Range piece{range.begin, std::min(range.end, held_[at(region) + 1])};
      f(region, piece);
      range.begin = piece.end;
    }
  }
  [[nodiscard]] std::uint64_t region_range(int region) const {
    return state_->boundaries[at(region) + 1] - state_->boundaries[at(region)];
  }
  [[nodiscard]] std::int64_t piece_bytes(int region, Range piece) const {
    return wire::message_bytes<T>(spec_.wire_of_sums(), piece.count(), region_range(region));
  }
  [[nodiscard]] std::int64_t slot_bytes(int region, Range piece) const {
    return wire::slot_bytes<T>(spec_.wire_of_sums(), piece.count(), region_range(region));
  }

  /// Sets offset_[i] to where the block of rank (me + i) mod P begins in gathered().
  void lay_out_blocks(int me, bool balanced) {
    std::exclusive_scan(selected_counts_.begin(), selected_counts_.end(), held_.begin(), std::uint64_t{0});
    held_[at(ranks_)] = held_[at(ranks_ - 1)] + selected_counts_[at(ranks_ - 1)];
    offset_[0] = 0;
    for (int i = 0; i < ranks_; ++i) {
      std::int64_t bytes = 0;
      for_pieces(block((me + i) % ranks_, balanced), [&](int region, Range piece) { bytes += slot_bytes(region, piece); });
      offset_[at(i) + 1] = offset_[at(i)] + bytes;
    }
  }

  void encode_selected(int me, std::uint64_t first, std::int64_t count, Message to) {
    space_.encode(spec_.wire_of_sums(), selected_.indices + first, selected_.values + first, count, 0, region_range(me), to);
  }

  /// Calls f(owner, piece) for the part of my region's selection that belongs to other ranks' parts.
  template <class F>
  void for_pieces_given(int me, F f) const {
    for (int owner = 0; owner < ranks_; ++owner) {
      const Range target = block(owner, true);
      const Range piece{std::max(held_[at(me)], target.begin), std::min(held_[at(me) + 1], target.end)};
      if (owner != me && piece.begin < piece.end) f(owner, piece);
    }
  }

  task<void> balance(Channel channel) {
    const StageScope stage = channel.stage(Stage::balance);
    const int me = channel.rank();
    const auto first = [&](Range piece) { return piece.begin - held_[at(me)]; };
    std::int64_t in_offset = 0, out_offset = 0;
    for_pieces(block(me, true), [&](int holder, Range piece) {
      if (holder == me) {
        encode_selected(me, first(piece), piece.count(), gathered() + in_offset);
        space_.push(gathered() + in_offset, piece_bytes(me, piece));
      }
      in_offset += slot_bytes(holder, piece);
    });
    for_pieces_given(me, [&](int, Range piece) {
      encode_selected(me, first(piece), piece.count(), split_.outgoing() + out_offset);
      out_offset += slot_bytes(me, piece);
    });
    space_.push(split_.outgoing(), out_offset);
    co_await space_.done(channel);

    std::size_t posted = 0;
    in_offset = out_offset = 0;
    for_pieces(block(me, true), [&](int holder, Range piece) {
      const Message place = gathered() + in_offset;
      if (holder != me) requests_[posted++] = channel.receive(place.wire, piece_bytes(holder, piece), holder, Traffic::payload);
      in_offset += slot_bytes(holder, piece);
    });
    for_pieces_given(me, [&](int owner, Range piece) {
      const Message message = split_.outgoing() + out_offset;
      requests_[posted++] = channel.send(message.wire, piece_bytes(me, piece), owner, Traffic::payload);
      out_offset += slot_bytes(me, piece);
    });
    co_await channel.done(std::span(requests_).first(posted));
  }

  SparseVector<T> decode(int me, bool balanced) {
    space_.pull(gathered(), offset_.back());
    for (int r = 0; r < ranks_; ++r) {
      const std::byte* memory = gathered().local + offset_[at((r - me + ranks_) % ranks_)];
      for_pieces(block(r, balanced), [&](int region, Range piece) {
        const auto first = static_cast<std::int64_t>(piece.begin);
        space_.decode(spec_.wire_of_sums(), memory, piece_bytes(region, piece), piece.count(),
                      static_cast<std::uint32_t>(state_->boundaries[at(region)]), region_range(region),
                      result_indices_.data() + first, result_values_.data() + first);
        memory += slot_bytes(region, piece);
      });
    }
    const auto total = static_cast<std::int64_t>(held_.back());
    space_.divide({result_values_.data(), nullptr, total}, spec_);
    return {result_indices_.data(), result_values_.data(), total};
  }

  /// Returns what rounding on the wire took from the entries of my region.
  SparseVector<T> rounding_loss(int me) {
    if (spec_.wire_values == WireValues::native) return {};
    space_.subtract_rounded(spec_.wire_of_sums(), selected_);
    space_.shift(selected_, static_cast<std::uint32_t>(state_->boundaries[at(me)]));
    return {selected_.indices, selected_.values, selected_.count};
  }

  ExchangeSpec spec_;
  OkTopkParameters parameters_;
  int ranks_;
  std::int64_t result_capacity_;
  OkTopkState<T>* state_ = nullptr;  // of this run
  Space space_;
  SplitReduce<T, Space> split_;
  std::optional<PhasedReduce<T>> phased_;
  bool by_phases_ = false;  // in this run
  typename Space::IndexCopy index_copy_;
  std::vector<std::uint64_t> own_counts_;  // my entries, per region
  Buffer<std::uint64_t> words_;            // the announcement, followed by its scratch
  Buffer<std::uint64_t> cut_scratch_;
  // The most values in doubt that ranks show. None in mode `reuse`: its threshold stays where a histogram ended.
  std::int64_t few_;
  Buffer<std::byte> cards_;  // mine, those of all ranks, and scratch
  Buffer<T> doubtful_;       // values in doubt: first mine, then those of all ranks
  std::vector<Sizes> sizes_;
  std::vector<std::uint64_t> selected_counts_;  // entries of the update, per region
  std::vector<std::uint64_t> prefix_;
  std::vector<std::uint64_t> held_;  // entries of the update before each region
  std::vector<std::int64_t> offset_;
  std::vector<Request> requests_;
  coo::Segment<T> selected_;  // of my region, with indices relative to it
  typename Space::template Array<std::uint32_t> result_indices_;
  typename Space::template Array<T> result_values_;
};

}  // namespace weir
