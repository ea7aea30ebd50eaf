#include "checkpoint/redistribution.hpp"

#include <algorithm>
#include <cmath>

namespace weir::checkpoint {
namespace {

std::int64_t end_row(const Region& region) { return region.first_row + region.rows; }
bool holds(const Region& region, std::int64_t row) { return region.first_row <= row && row < end_row(region); }

std::vector<std::size_t> holders_of(std::span<const Region> regions, std::int64_t row) {
  std::vector<std::size_t> holders;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (holds(regions[i], row)) holders.push_back(i);
  }
  return holders;
}

/// Returns the points within [begin, end] at which holders change, with both ends.
std::vector<std::int64_t> changes_within(std::span<const Region> a, std::span<const Region> b, std::int64_t begin,
                                         std::int64_t end) {
  std::vector<std::int64_t> at = {begin, end};
  for (const std::span<const Region> regions : {a, b}) {
    for (const Region& region : regions) {
      for (const std::int64_t row : {region.first_row, end_row(region)}) {
        if (begin < row && row < end) at.push_back(row);
      }
    }
  }
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

void append(std::vector<Sum>& sums, Sum sum) {
  if (sum.begin == sum.end) return;
  if (!sums.empty() && sums.back().of == sum.of)
    sums.back().end = sum.end;
  else
    sums.push_back(std::move(sum));
}

bool is_empty(const Region& region) { return region.rows <= 0 || region.columns <= 0; }

Region common(const Region& a, const Region& b) {
  Region c = a;
  c.first_row = std::max(a.first_row, b.first_row);
  c.rows = std::min(end_row(a), end_row(b)) - c.first_row;
  c.first_column = std::max(a.first_column, b.first_column);
  c.columns = std::min(a.first_column + a.columns, b.first_column + b.columns) - c.first_column;
  return c;
}

/// Appends the rest of `whole` without `hole`, which lies in it.
void append_rest(const Region& whole, const Region& hole, std::vector<Region>& rest) {
  Region above = whole, below = whole, left = hole, right = hole;
  above.rows = hole.first_row - whole.first_row;
  below.first_row = end_row(hole);
  below.rows = end_row(whole) - end_row(hole);
  left.first_column = whole.first_column;
  left.columns = hole.first_column - whole.first_column;
  right.first_column = hole.first_column + hole.columns;
  right.columns = whole.first_column + whole.columns - right.first_column;
  for (const Region& region : {above, left, right, below}) {
    if (!is_empty(region)) rest.push_back(region);
  }
}

}  // namespace

std::vector<Sum> shares_of(std::span<const Region> old_holders, std::span<const Region> new_holders, std::size_t mine) {
  std::vector<Sum> sums;
  const Region& range = new_holders[mine];
  if (range.rows <= 0) return sums;
  // Cut blocks at changes over the whole, so that all new holders make the same cuts.
  const std::vector<std::int64_t> changes =
      changes_within(old_holders, new_holders, 0, std::max<std::int64_t>(range.whole_rows, end_row(range)));
  for (std::size_t c = 0; c + 1 < changes.size(); ++c) {
    const std::int64_t begin = changes[c], end = changes[c + 1];
    if (!holds(range, begin)) continue;
    const std::vector<std::size_t> from = holders_of(old_holders, begin), to = holders_of(new_holders, begin);
    const auto place = static_cast<std::size_t>(std::find(to.begin(), to.end(), mine) - to.begin());
    Sum own{begin, end, {}};
    if (place < from.size()) own.of = {from[place]};
    if (from.size() <= to.size()) {
      append(sums, std::move(own));
      continue;
    }
    const auto blocks = static_cast<std::int64_t>(to.size()), block = static_cast<std::int64_t>(place);
    const std::int64_t length = end - begin;
    const std::int64_t first = begin + length * block / blocks, last = begin + length * (block + 1) / blocks;
    Sum with_rest{first, last, own.of};
    with_rest.of.insert(with_rest.of.end(), from.begin() + static_cast<std::ptrdiff_t>(to.size()), from.end());
    append(sums, {begin, first, own.of});
    append(sums, std::move(with_rest));
    append(sums, {last, end, own.of});
  }
  return sums;
}

std::int64_t uncovered_element(std::span<const Region> old_holders, std::span<const Region> new_holders) {
  for (const Region& region : old_holders) {
    if (region.rows <= 0) continue;
    for (const std::int64_t row : changes_within(old_holders, new_holders, region.first_row, end_row(region))) {
      if (row < end_row(region) && holders_of(new_holders, row).empty()) return row;
    }
  }
  return -1;
}

std::vector<Part> parts_of(const Region& wanted, std::span<const Region> holders, std::size_t first) {
  std::vector<Part> parts;
  std::vector<Region> missing, rest;
  if (!is_empty(wanted)) missing.push_back(wanted);
  for (std::size_t i = 0; i < holders.size() && !missing.empty(); ++i) {
    const std::size_t holder = (first + i) % holders.size();
    if (is_empty(holders[holder])) continue;
    rest.clear();
    for (const Region& region : missing) {
      const Region found = common(region, holders[holder]);
      if (is_empty(found)) {
        rest.push_back(region);
      } else {
        parts.push_back({found, holder});
        append_rest(region, found, rest);
      }
    }
    std::swap(missing, rest);
  }
  return parts;
}

std::vector<std::uint64_t> cut_anew(std::span<const Cuts> old, const Region& range, std::int64_t regions) {
  // The part of an old region within the range, and its weight.
  struct Piece {
    double begin, end, mass;
  };
  std::vector<Piece> pieces;
  std::vector<Region> seen;
  double mass = 0;
  for (const Cuts& cuts : old) {
    if (cuts.at.size() < 2 || std::find(seen.begin(), seen.end(), cuts.range) != seen.end()) continue;
    seen.push_back(cuts.range);
    const double each = static_cast<double>(cuts.range.rows) / static_cast<double>(cuts.at.size() - 1);
    for (std::size_t i = 0; i + 1 < cuts.at.size(); ++i) {
      const auto begin = static_cast<double>(cuts.range.first_row) + static_cast<double>(cuts.at[i]);
      const auto end = static_cast<double>(cuts.range.first_row) + static_cast<double>(cuts.at[i + 1]);
      const double from = std::max(begin, static_cast<double>(range.first_row));
      const double to = std::min(end, static_cast<double>(end_row(range)));
      if (from >= to) continue;
      const double part = each * (to - from) / (end - begin);
      pieces.push_back({from, to, part});
      mass += part;
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<std::uint64_t> cuts(static_cast<std::size_t>(regions) + 1);
  double before = 0;
  std::size_t at = 0;
  for (std::int64_t i = 1; i < regions; ++i) {
    const double wanted = mass * static_cast<double>(i) / static_cast<double>(regions);
    while (at < pieces.size() && before + pieces[at].mass < wanted) before += pieces[at++].mass;
    double row = static_cast<double>(end_row(range));
    if (at < pieces.size()) row = pieces[at].begin + (pieces[at].end - pieces[at].begin) * (wanted - before) / pieces[at].mass;
    if (pieces.empty())
      row = static_cast<double>(range.first_row) +
            static_cast<double>(range.rows) * static_cast<double>(i) / static_cast<double>(regions);
    const double within = std::clamp(std::round(row) - static_cast<double>(range.first_row), 0.0, static_cast<double>(range.rows));
    cuts[static_cast<std::size_t>(i)] = std::max(cuts[static_cast<std::size_t>(i) - 1], static_cast<std::uint64_t>(within));
  }
  cuts.back() = static_cast<std::uint64_t>(range.rows);
  if (regions > 0) cuts.front() = 0;
  return cuts;
}

}  // namespace weir::checkpoint
