// oktopk_volume.hpp: the bounds on what Ok-Topk sends, as formulas. Tests assert them, models use them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/control.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/regions.hpp"

namespace weir {

/// Most payload words (4 bytes) that a rank sends or receives in one iteration, on any input, for float32: 6 k, that is 3 k entries
/// of index and value. Every rank sends at most its k entries in split-and-reduce, and at most 2 k (P - 1) / P in balance and
/// allgatherv. Parts that do not divide evenly add an entry each, and a region cannot be cut finer than one index, which every rank
/// may contribute to.
[[nodiscard]] constexpr std::int64_t oktopk_payload_words(std::int64_t k, int ranks) {
  return ranks == 1 ? 0 : 6 * k + 2 * std::int64_t{ranks} + 8;
}

/// Most control words that a rank sends in one iteration: boundaries, announcement, a re-cut, sizes, histograms, twice in mode
/// `reuse`.
template <class T>
[[nodiscard]] std::int64_t oktopk_control_words(int ranks) {
  if (ranks == 1) return 0;
  const std::int64_t p = ranks;
  const std::int64_t messages = allreduce_control_messages(ranks);
  const std::int64_t boundaries = messages * 2 * (p - 1);
  const std::int64_t announcement = messages * 2 * (p + 1);
  const std::int64_t recut = messages * 2 * (recut_coarse_bins + std::int64_t{recut_fine_rounds} * recut_fine_bins * (p - 1));
  const std::int64_t sizes = (p - 1) + 3 * 3 * (p - 1);
  const std::int64_t histograms = 2 * messages * 2 * kth_words * kth_rounds<T>;
  return boundaries + announcement + recut + sizes + histograms;
}

/// Most payload words that the ranks of one switch group, of equal local rank, together send to other groups in hi_oktopk, on any
/// input, for float32: 6 k, however many ranks the group has; k is their shard's. Every owner of a part of the index space sends
/// those of its group's entries that lie in its part, all together at most k, and what oktopk sends to deliver the k_p that the
/// part has of k: at most 2 k_p (G - 1) / G entries, all together 2 k (G - 1) / G. Where a group's selection exceeds k, less is
/// delivered. The same goes for what they receive. Slack as in oktopk_payload_words(), for each part.
[[nodiscard]] constexpr std::int64_t hi_oktopk_switch_words(std::int64_t k, int groups, int parts) {
  return groups == 1 ? 0 : 6 * k + parts * oktopk_payload_words(0, groups);
}

/// Most control words that they send to other groups: an announcement, and what oktopk sends among the owners of a part.
template <class T>
[[nodiscard]] std::int64_t hi_oktopk_switch_control_words(int groups, int parts) {
  if (groups == 1) return 0;
  const std::int64_t announcement = std::int64_t{2} * allreduce_control_messages(groups) * (5 + parts);
  return parts * (announcement + oktopk_control_words<T>(groups));
}

}  // namespace weir
