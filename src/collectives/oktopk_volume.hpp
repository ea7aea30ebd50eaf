// oktopk_volume.hpp: the bounds on what Ok-Topk sends, as formulas. Tests assert them, models use them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <weir/weir.hpp>

#include "collectives/control.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/phased_reduce.hpp"
#include "collectives/regions.hpp"

namespace weir {

/// Returns the most payload words (4 bytes) that a rank sends or receives in one iteration of the direct schedule, on any input,
/// for float32: 6 k, that is, 3 k entries of index and value. Every rank sends at most its k entries in split-and-reduce, and at
/// most 2 k (P - 1) / P in balance and allgatherv. Parts that do not divide evenly add an entry each, and a region cannot be cut
/// finer than one index, to which every rank may contribute.
[[nodiscard]] constexpr std::int64_t oktopk_payload_words(std::int64_t k, int ranks) {
  return ranks == 1 ? 0 : 6 * k + 2 * std::int64_t{ranks} + 8;
}

/// Returns the number of phases of the phased schedule, or with radix 0 the most for any radix.
[[nodiscard]] constexpr int oktopk_phases(int ranks, int radix) {
  int phases = 0;
  for (int block = 1; 2 * block <= ranks; block *= radix == 0 ? 2 : radix) ++phases;
  return phases;
}

/// Returns the most messages of the phases: radix - 1 per phase, and one to and one from a rank beyond the largest power of two.
/// With radix 0, the most for any radix.
[[nodiscard]] constexpr int oktopk_phase_messages(int ranks, int radix) {
  if (radix == 0) radix = 64;
  int messages = std::has_single_bit(static_cast<unsigned>(ranks)) ? 0 : 2;
  const int holders = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  for (int block = 1; block < holders; block *= radix) messages += std::min(radix, holders / block) - 1;
  return messages;
}

/// Returns the most messages that a rank sends in one iteration of the direct or the phased schedule, except those that bring
/// entries to their regions: announcement, histograms, sizes, allgatherv. It assumes an iteration that does not average or re-cut
/// boundaries, finds its threshold in `rounds` histograms, and has no message so long that it takes two. Balancing adds up to P -
/// 1.
[[nodiscard]] inline int oktopk_common_messages(int ranks, int rounds) {
  const int gather = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  return (1 + rounds) * allreduce_control_messages(ranks) + 2 * gather;
}
/// Returns the most messages of the phased schedule, including those that bring entries to their regions.
[[nodiscard]] inline int oktopk_phased_messages(int ranks, int radix, int rounds) {
  return oktopk_common_messages(ranks, rounds) + oktopk_phase_messages(ranks, radix);
}
/// Returns the most messages of the direct schedule, in which counts and entries go to every other rank.
[[nodiscard]] inline int oktopk_direct_messages(int ranks, int rounds) {
  return oktopk_common_messages(ranks, rounds) + alltoall_control_messages(ranks) + ranks - 1;
}

/// Returns the most payload words that a rank sends or receives in one iteration of the phased schedule, on any input, for float32.
/// These are what it holds in every phase and hands over before and after, at most phased_load() entries each, and 2 k (P - 1) / P
/// entries in balance and allgatherv. If an input would exceed that, the iteration is direct. A message begins with 8 bytes.
[[nodiscard]] constexpr std::int64_t oktopk_phased_words(std::int64_t k, int ranks, int radix) {
  if (ranks == 1) return 0;
  const std::int64_t held = (oktopk_phases(ranks, radix) + 2) * 2 * phased_load(k, ranks) + 6 * oktopk_phase_messages(ranks, radix);
  return std::max(oktopk_payload_words(k, ranks), held + 4 * k + std::int64_t{2} * ranks + 8);
}

/// Returns the most payload words that a rank sends or receives in one iteration in one round: k entries of every other rank, and
/// 16 bytes each.
[[nodiscard]] constexpr std::int64_t oktopk_one_round_words(std::int64_t k, int ranks) {
  return (2 * k + 6) * (std::int64_t{ranks} - 1);
}

/// Returns the bound for the schedule of a plan.
[[nodiscard]] constexpr std::int64_t oktopk_payload_words(std::int64_t k, int ranks, ExchangeSchedule schedule, int radix) {
  if (schedule == ExchangeSchedule::direct) return oktopk_payload_words(k, ranks);
  if (schedule == ExchangeSchedule::phased) return oktopk_phased_words(k, ranks, radix);
  return oktopk_one_round_words(k, ranks);
}

/// Returns the most control words that a rank sends in one iteration: boundaries, announcement, a re-cut, histograms, and sizes
/// with values in doubt. The cut may be found twice: in mode `reuse`, or to keep the volume bound. Sizes may be shared three times.
/// In phases the cut is found once, but a re-cut is followed by another announcement.
template <class T>
[[nodiscard]] std::int64_t oktopk_control_words(int ranks, ExchangeSchedule schedule) {
  if (ranks == 1) return 0;
  const std::int64_t p = ranks;
  const std::int64_t messages = allreduce_control_messages(ranks);
  const std::int64_t boundaries = messages * 2 * (p - 1);
  const std::int64_t announcement = messages * 2 * (p + 1 + oktopk_phases(ranks, 2));
  const std::int64_t recut = messages * 2 * (recut_coarse_bins + std::int64_t{recut_fine_rounds} * recut_fine_bins * (p - 1));
  const std::int64_t doubtful = few_in_messages(ranks) * static_cast<std::int64_t>(sizeof(T) / 4);
  const std::int64_t sizes = (p - 1) + 3 * (3 + doubtful) * (p - 1);
  const std::int64_t histograms = messages * 2 * kth_words * kth_rounds<T>;
  return boundaries + announcement + recut + sizes + histograms +
         (schedule == ExchangeSchedule::phased ? announcement : histograms);
}

/// Returns the most payload words that the ranks of one switch group, of equal local rank, together send to other groups in
/// hi_oktopk, on any input, for float32: 6 k, for any number of ranks; k is their shard's. Every owner of a part of the index space
/// sends its group's entries in its part, together at most k. It also sends what oktopk needs to deliver the part's k_p of k: at
/// most 2 k_p (G - 1) / G entries, together 2 k (G - 1) / G. If a group's selection exceeds k, less is delivered. The same bound
/// holds for what they receive. The slack is that of oktopk_payload_words(), for each part.
[[nodiscard]] constexpr std::int64_t hi_oktopk_switch_words(std::int64_t k, int groups, int parts) {
  return groups == 1 ? 0 : 6 * k + parts * oktopk_payload_words(0, groups);
}

/// Returns the most control words that they send to other groups: an announcement, and what oktopk sends among the owners of a
/// part.
template <class T>
[[nodiscard]] std::int64_t hi_oktopk_switch_control_words(int groups, int parts) {
  if (groups == 1) return 0;
  const std::int64_t announcement = std::int64_t{2} * allreduce_control_messages(groups) * (5 + parts);
  return parts * (announcement + oktopk_control_words<T>(groups, ExchangeSchedule::direct));
}

}  // namespace weir
