#include "collectives/regions.hpp"

#include <algorithm>
#include <array>

#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "kernels/kernels.hpp"

namespace weir {
namespace {

/// The search for one cut: it lies in [low, low + bins * width), and `before` indices lie before that.
struct Search {
  std::uint64_t low;
  std::uint64_t width;
  std::uint64_t before;
  std::uint64_t cut;  // number of the cut, 1 .. P - 1
};

void fill_bins(std::span<const std::uint32_t> indices, const Search& search, int bins, std::uint64_t* out) {
  std::array<std::uint64_t, std::max(recut_coarse_bins, recut_fine_bins) + 1> edges;
  for (int i = 0; i <= bins; ++i) edges[static_cast<std::size_t>(i)] = search.low + static_cast<std::uint64_t>(i) * search.width;
  kernels::host::count_regions(indices.data(), static_cast<std::int64_t>(indices.size()), edges.data(), bins, out);
}

/// Narrows `search` to the bin that contains `target`. Returns that bin's count.
std::uint64_t narrow(Search& search, std::uint64_t target, int bins, const std::uint64_t* counts) {
  int bin = 0;
  while (bin + 1 < bins && search.before + counts[bin] < target) {
    search.before += counts[bin];
    ++bin;
  }
  search.low += static_cast<std::uint64_t>(bin) * search.width;
  return counts[bin];
}

}  // namespace

void uniform_boundaries(std::uint64_t n, Boundaries& boundaries) {
  const int ranks = static_cast<int>(boundaries.size()) - 1;
  for (int j = 0; j <= ranks; ++j) boundaries[static_cast<std::size_t>(j)] = part_begin(n, j, ranks);
}

void uniform_cuts(std::uint64_t n, int regions, std::uint64_t* cuts) {
  const auto parts = static_cast<std::uint64_t>(regions);
  for (std::uint64_t j = 1; j < parts; ++j) cuts[j - 1] = n * j / parts;
}

task<void> average_boundaries(Channel channel, Boundaries& boundaries, std::uint64_t* cuts) {
  const auto ranks = static_cast<std::uint64_t>(channel.size());
  co_await allreduce_control(channel, cuts, static_cast<std::int64_t>(ranks) - 1, 0, cuts + ranks);
  for (std::uint64_t j = 1; j < ranks; ++j) boundaries[j] = cuts[j - 1] / ranks;
}

task<void> recut_boundaries(Channel channel, std::span<const std::uint32_t> indices, std::uint64_t total, std::uint64_t n,
                            Boundaries& boundaries, std::uint64_t* scratch) {
  const auto ranks = static_cast<std::uint64_t>(channel.size());
  const std::uint64_t tolerance = std::max<std::uint64_t>(1, total / (8 * ranks));
  const std::int64_t half = (recut_scratch(channel.size()) - 4 * channel.size()) / 2;
  std::uint64_t* const counts = scratch;
  std::uint64_t* const received = scratch + half;
  Search* const open = reinterpret_cast<Search*>(scratch + 2 * half);
  static_assert(sizeof(Search) == 4 * sizeof(std::uint64_t));

  // A cut is settled at the nearer edge of its bin once that bin is light or a single position. Otherwise it stays open.
  std::int64_t open_count = 0;
  const auto settle_or_keep = [&](Search search, std::uint64_t bin_count) {
    const std::uint64_t target = total * search.cut / ranks;
    if (bin_count > tolerance && search.width > 1) {
      open[open_count++] = search;
      return;
    }
    const bool low_is_nearer =
        target - std::min(target, search.before) <= search.before + bin_count - std::min(target, search.before + bin_count);
    boundaries[search.cut] = std::min(n, low_is_nearer ? search.low : search.low + search.width);
  };

  // 1. one coarse histogram over everything serves all cuts
  const Search whole{0, (n + recut_coarse_bins - 1) / recut_coarse_bins, 0, 0};
  fill_bins(indices, whole, recut_coarse_bins, counts);
  co_await allreduce_control(channel, counts, recut_coarse_bins, 0, received);
  for (std::uint64_t cut = 1; cut < ranks; ++cut) {
    Search search = whole;
    search.cut = cut;
    const std::uint64_t bin_count = narrow(search, total * cut / ranks, recut_coarse_bins, counts);
    settle_or_keep(search, bin_count);
  }

  // 2. finer ones around the cuts in heavy bins
  while (open_count > 0) {
    const std::int64_t searches = open_count;
    for (std::int64_t i = 0; i < searches; ++i) {
      open[i].width = (open[i].width + recut_fine_bins - 1) / recut_fine_bins;
      fill_bins(indices, open[i], recut_fine_bins, counts + i * recut_fine_bins);
    }
    co_await allreduce_control(channel, counts, searches * recut_fine_bins, 0, received);
    open_count = 0;
    for (std::int64_t i = 0; i < searches; ++i) {
      Search search = open[i];
      const std::uint64_t bin_count = narrow(search, total * search.cut / ranks, recut_fine_bins, counts + i * recut_fine_bins);
      settle_or_keep(search, bin_count);
    }
  }
  for (std::uint64_t j = 1; j < ranks; ++j) boundaries[j] = std::max(boundaries[j], boundaries[j - 1]);
}

}  // namespace weir
