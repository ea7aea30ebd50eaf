// redistribution.hpp: who gets what of a state that other ranks, in another number or on other nodes, have saved. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/state.hpp"

namespace weir::checkpoint {

/// Elements [begin, end) of a vector, and the old holders, by their place in a list, whose values are added up there. Nobody: zero.
struct Sum {
  std::int64_t begin = 0, end = 0;
  std::vector<std::size_t> of;
};

/// What new holder `mine` gets of a vector that is the sum of all old holders' parts, ascending and without gaps over its range.
///
/// Where an element has n old holders and m new ones, the i-th of the old gives to the i-th of the new for i < min(n, m), as it is.
/// If n > m, what is left is added to one of the new, in m equal blocks of elements by turns: so every element is rounded once, on
/// one rank, and all ranks take equally much. If m > n, the others begin with zero. Every element of an old holder must have a new
/// one: see uncovered_element().
[[nodiscard]] std::vector<Sum> shares_of(std::span<const Region> old_holders, std::span<const Region> new_holders,
                                         std::size_t mine);
/// The first element that has an old holder and no new one; -1: none.
[[nodiscard]] std::int64_t uncovered_element(std::span<const Region> old_holders, std::span<const Region> new_holders);

/// A part of `wanted`, and the holder that has it.
struct Part {
  Region region;
  std::size_t of = 0;
};
/// Parts that make up `wanted`, none of them twice; holders from number `first` on are asked first. Fewer where holders do not have
/// all of it.
[[nodiscard]] std::vector<Part> parts_of(const Region& wanted, std::span<const Region> holders, std::size_t first);

/// Cuts of an old range, from 0 to its length.
struct Cuts {
  Region range{};
  std::span<const std::uint64_t> at{};
};
/// Cuts `range` into `regions` regions that hold equal shares of what each old region was cut to hold: equally much within its
/// range. Old ranges that appear twice count once. From 0 to range.rows.
[[nodiscard]] std::vector<std::uint64_t> cut_anew(std::span<const Cuts> old, const Region& range, std::int64_t regions);

}  // namespace weir::checkpoint
