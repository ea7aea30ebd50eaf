// redistribution.hpp: divides saved state among ranks if their number or nodes have changed. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/state.hpp"

namespace weir::checkpoint {

/// Elements [begin, end) of a vector, and the old holders (indices into a list) whose values are summed there. No holder: zero.
struct Sum {
  std::int64_t begin = 0, end = 0;
  std::vector<std::size_t> of;
};

/// Returns what new holder `mine` gets of a vector that is the sum of all old holders' parts. Ascending, without gaps in its range.
///
/// If an element has n old holders and m new ones, old holder i gives its value unchanged to new holder i, for i < min(n, m).
/// If n > m, the rest is added to one new holder, and the new holders take turns in m equal blocks of elements. So each element is
/// rounded once, on one rank, and all ranks get equal amounts. If m > n, the other new holders start with zero. Every element with
/// an old holder must have a new one: see uncovered_element().
[[nodiscard]] std::vector<Sum> shares_of(std::span<const Region> old_holders, std::span<const Region> new_holders,
                                         std::size_t mine);
/// Returns the first element that has an old holder and no new one, or -1.
[[nodiscard]] std::int64_t uncovered_element(std::span<const Region> old_holders, std::span<const Region> new_holders);

/// A part of a wanted region, and the holder that has it.
struct Part {
  Region region;
  std::size_t of = 0;
};
/// Returns disjoint parts that make up `wanted`. Prefers holders from number `first` on. The parts cover less if the holders do not
/// have all of `wanted`.
[[nodiscard]] std::vector<Part> parts_of(const Region& wanted, std::span<const Region> holders, std::size_t first);

/// Cut points of an old range, from 0 to its length.
struct Cuts {
  Region range{};
  std::span<const std::uint64_t> at{};
};
/// Cuts `range` into `regions` regions of equal weight. An old range weighs as much as it has rows. Its regions have equal weights,
/// each spread evenly over the region's rows. Old ranges that appear twice count once. Returns cut points from 0 to range.rows.
[[nodiscard]] std::vector<std::uint64_t> cut_anew(std::span<const Cuts> old, const Region& range, std::int64_t regions);

}  // namespace weir::checkpoint
