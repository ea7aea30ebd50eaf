// global_kth.hpp: finds the k-th largest magnitude among all ranks' values. Small allreduced histograms narrow down its key. Ranks
// may then show each other the few values still in doubt. Also selects the k largest entries of a sum that every rank has.
#pragma once

#include <algorithm>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/control.hpp"
#include "collectives/host_space.hpp"

namespace weir {

/// The entries to select: every key above `key`, and the first `ties` with exactly that key (in rank order, then in index order).
template <class T>
struct GlobalCut {
  Key<T> key = 0;
  std::uint64_t ties = 0;
};

/// Between which keys the cut lies: every key above `high` is above it. `inside` keys of all ranks lie in [low, high], and the
/// `wanted` largest of them are to be selected.
template <class T>
struct CutRange {
  Key<T> low = 0, high = 0;
  std::uint64_t inside = 0, wanted = 0;
  [[nodiscard]] bool takes_all() const { return inside == wanted; }
  [[nodiscard]] bool is_one_key() const { return low == high; }
  /// Returns whether the cut is known without the values inside.
  [[nodiscard]] bool is_known() const { return takes_all() || is_one_key(); }
  /// Returns the cut, if it is known.
  [[nodiscard]] GlobalCut<T> cut() const {
    if (takes_all()) return {static_cast<Key<T>>(low - 1), 0};
    return {low, wanted};
  }
  /// Returns the cut. `values` are those inside the range, of all ranks; there is at least one wanted.
  [[nodiscard]] GlobalCut<T> cut_among(const T* values) const {
    const KthKey<T> kth = kernels::host::kth_key(values, static_cast<std::int64_t>(inside), static_cast<std::int64_t>(wanted));
    return {kth.key, wanted - static_cast<std::uint64_t>(kth.greater)};
  }
};

inline constexpr int kth_bins = 128;
inline constexpr int kth_bin_bits = 7;
/// Words that travel in a round. Counts are below 2^32, so two share a word.
inline constexpr std::int64_t kth_words = kth_bins / 2 + 1;
/// Words of scratch for cut_range().
inline constexpr std::int64_t kth_scratch = kth_bins + 1 + 2 * kth_words;
/// The most rounds of cut_range(): one for a guess that fails, then one for each 7 bits of the key.
template <class T>
inline constexpr int kth_rounds = 2 + (key_bits<T> + kth_bin_bits - 1) / kth_bin_bits;

/// Returns the most values in doubt that `ranks` ranks show each other in messages. Another histogram would take longer.
[[nodiscard]] constexpr std::int64_t few_in_messages(int ranks) { return ranks <= 128 ? 256 / ranks : 0; }

/// Returns how many rounds cut_range() usually takes with a good guess and `enough`. The first leaves a bin of 1/128 of an octave,
/// with about 4 % of k. Each further round divides that by the number of bins.
[[nodiscard]] constexpr int usual_rounds(double k, std::int64_t enough) {
  int rounds = 1;
  for (double inside = 0.04 * k; inside > static_cast<double>(std::max<std::int64_t>(enough, 1)); inside /= kth_bins) ++rounds;
  return rounds;
}

/// Sums words over the ranks by messages.
struct SumByMessages {
  task<void> operator()(Channel channel, std::uint64_t* words, std::int64_t count, std::uint64_t* scratch) const {
    return allreduce_control(channel, words, count, 0, scratch);
  }
};

/// Finds where the cut lies that selects k entries on all ranks together, or all nonzero entries if there are fewer. Ends once the
/// range takes all, is one key, or has at most `enough` entries inside. With a good `guess` (last iteration's key; 0 for none) two
/// or three rounds lead to one key. Fewer suffice if `enough` is large. Returns the same result on every rank. `sum` sums up to
/// kth_words words over the ranks.
template <class T, class Space, class Sum = SumByMessages>
task<CutRange<T>> cut_range(Channel channel, Space& space, coo::Segment<T> entries, std::int64_t k, Key<T> guess,
                            std::uint64_t enough, std::uint64_t* scratch, Sum sum = {}) {
  constexpr Key<T> highest = ~Key<T>{0} >> 1;
  constexpr Key<T> half_window = Key<T>{1} << (sizeof(T) == 4 ? 21 : 50);  // a quarter of an octave
  // Keys near the last cut come first, or all of them without a guess.
  const bool near = guess > half_window && guess < highest - half_window;
  Key<T> low = near ? guess - half_window : 1, high = near ? guess + half_window : highest;
  std::uint64_t* const bins = scratch;
  std::uint64_t& above = scratch[kth_bins];
  std::uint64_t* const words = scratch + kth_bins + 1;
  auto wanted = static_cast<std::uint64_t>(k);  // counted down from the top of [low, high]
  bool above_is_known = high == highest;

  while (true) {
    int shift = 0;
    while (((high - low) >> shift) >= kth_bins) ++shift;
    co_await space.histogram(channel, entries, low, high, shift, std::span(bins, kth_bins), &above);
    if (channel.size() > 1) {
      for (int i = 0; i < kth_bins / 2; ++i) words[i] = bins[2 * i] | bins[2 * i + 1] << 32;
      words[kth_words - 1] = above;
      co_await sum(channel, words, kth_words, words + kth_words);
      for (int i = 0; i < kth_bins; ++i) bins[i] = words[i / 2] >> (i % 2 * 32) & 0xffffffff;
      above = words[kth_words - 1];
    }
    if (!above_is_known) {
      above_is_known = true;
      if (above >= wanted) {  // the guess was too low
        low = high + 1;
        high = highest;
        continue;
      }
      wanted -= above;
    }
    int bin = kth_bins - 1;
    while (bin >= 0 && bins[bin] < wanted) wanted -= bins[bin--];
    if (bin < 0) {
      if (low == 1) co_return CutRange<T>{1, high, 0, 0};  // fewer than k are nonzero
      high = low - 1;                                      // the guess was too high
      low = 1;
      continue;
    }
    low += static_cast<Key<T>>(bin) << shift;
    high = std::min(high, static_cast<Key<T>>(low + ((Key<T>{1} << shift) - 1)));
    const CutRange<T> range{low, high, bins[bin], wanted};
    if (range.takes_all() || range.is_one_key() || range.inside <= enough) co_return range;
  }
}

/// Copies the k largest entries of `sum`, which every rank has as a whole, to the memory of `to`, with room for k entries and
/// select_padding more. Sets `global_key` to a guess for the next cut.
template <class T>
coo::Segment<T> keep_largest(coo::Segment<T> sum, std::int64_t k, Key<T>& global_key, coo::Segment<T> to) {
  const KthKey<T> kth = kernels::host::kth_key(sum.values, sum.count, k);
  global_key = kth.key;
  Band<T> band = band_of_largest(kth, k);
  to.count = kernels::host::select_band<T>(sum.indices, sum.values, sum.count, band, to.indices, to.values, nullptr, 0);
  return to;
}

}  // namespace weir
