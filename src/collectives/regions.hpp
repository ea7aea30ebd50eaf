// regions.hpp: how the index space is split among the ranks: region j = [boundaries[j], boundaries[j + 1]) is summed by rank j.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

/// P + 1 ascending positions. The first is 0, the last is n.
using Boundaries = std::vector<std::uint64_t>;

/// Sets P regions whose sizes differ by at most one.
void uniform_boundaries(std::uint64_t n, Boundaries& boundaries);

/// Sets cuts[j - 1] = n * j / regions, where a rank without indices would cut.
void uniform_cuts(std::uint64_t n, int regions, std::uint64_t* cuts);

/// Ok-Topk section 3.1.1: every rank balances its own indices into P regions, and the boundaries are averaged over the ranks.
/// `cuts` are the quantiles of its own indices, or uniform_cuts() if it has no indices, in memory for 2 P words.
task<void> average_boundaries(Channel channel, Boundaries& boundaries, std::uint64_t* cuts);

/// Beyond the paper: cuts boundaries so that every region holds nearly the same share of all ranks' indices taken together, on any
/// input. The ranks' index histograms are summed, first coarse over all of [0, n), then finer around the cuts that fall into heavy
/// bins. A region then exceeds the mean by at most 1/8 of it plus the weight of a single index (at most P). `total` is the number
/// of indices on all ranks. `scratch` holds recut_scratch(P) words.
task<void> recut_boundaries(Channel channel, std::span<const std::uint32_t> indices, std::uint64_t total, std::uint64_t n,
                            Boundaries& boundaries, std::uint64_t* scratch);

inline constexpr int recut_coarse_bins = 256;
inline constexpr int recut_fine_bins = 32;
[[nodiscard]] constexpr std::int64_t recut_scratch(int ranks) {
  const std::int64_t fine = std::int64_t{recut_fine_bins} * (ranks - 1);
  return 2 * (fine > recut_coarse_bins ? fine : recut_coarse_bins) + 4 * ranks;
}
/// The most fine rounds that recut_boundaries needs below 2^32 positions.
inline constexpr int recut_fine_rounds = 5;

}  // namespace weir
