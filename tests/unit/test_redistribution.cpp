// test_redistribution.cpp: which rank gets which part of a state that other ranks have saved.
#include <algorithm>
#include <numeric>
#include <random>

#include "checkpoint/redistribution.hpp"
#include "support/catch.hpp"

namespace weir::checkpoint {
namespace {

/// Returns the regions of groups of ranks. The ranks of a group each have a range, and these make up the whole.
std::vector<Region> holders(std::int64_t whole, const std::vector<int>& groups) {
  std::vector<Region> regions;
  for (const int size : groups) {
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t first = whole * i / size;
      regions.push_back(range_of(whole, first, whole * (i + 1) / size - first));
    }
  }
  return regions;
}

const std::vector<std::vector<int>> divisions = {{1},          {1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, std::vector<int>(33, 1), {2, 2},
                                                 {3, 3, 3, 3}, {4},       {2, 2, 2, 2, 2}};

}  // namespace

TEST_CASE("every old holder's element goes to one new holder, rounded at most once", "[checkpoint]") {
  for (const std::int64_t whole : {1, 2, 7, 1000}) {
    for (const std::vector<int>& before : divisions) {
      for (const std::vector<int>& after : divisions) {
        const std::vector<Region> old_holders = holders(whole, before), new_holders = holders(whole, after);
        REQUIRE(uncovered_element(old_holders, new_holders) == -1);
        std::vector<std::vector<int>> given(old_holders.size(), std::vector<int>(static_cast<std::size_t>(whole)));
        std::vector<int> rounded(static_cast<std::size_t>(whole));
        for (std::size_t mine = 0; mine < new_holders.size(); ++mine) {
          std::int64_t at = new_holders[mine].first_row;
          for (const Sum& sum : shares_of(old_holders, new_holders, mine)) {
            REQUIRE(sum.begin == at);
            at = sum.end;
            for (std::int64_t i = sum.begin; i < sum.end; ++i) {
              for (const std::size_t holder : sum.of) ++given[holder][static_cast<std::size_t>(i)];
              rounded[static_cast<std::size_t>(i)] += sum.of.size() > 1 ? 1 : 0;
            }
          }
          REQUIRE(at == new_holders[mine].first_row + new_holders[mine].rows);
        }
        for (std::size_t holder = 0; holder < old_holders.size(); ++holder) {
          for (std::int64_t i = 0; i < whole; ++i) {
            const Region& region = old_holders[holder];
            const bool holds = region.first_row <= i && i < region.first_row + region.rows;
            REQUIRE(given[holder][static_cast<std::size_t>(i)] == (holds ? 1 : 0));
          }
        }
        REQUIRE(*std::max_element(rounded.begin(), rounded.end()) <= 1);
      }
    }
  }
}

TEST_CASE("as many holders of the same ranges keep what they have", "[checkpoint]") {
  const std::vector<Region> same = holders(100, {2, 2, 2});
  for (std::size_t mine = 0; mine < same.size(); ++mine) {
    for (const Sum& sum : shares_of(same, same, mine)) REQUIRE(sum.of == std::vector<std::size_t>{mine});
  }
  REQUIRE(uncovered_element(same, holders(50, {1})) == 50);
}

TEST_CASE("parts make up what is wanted, none of them twice", "[checkpoint]") {
  std::mt19937 random(3);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n)); };
  for (int trial = 0; trial < 500; ++trial) {
    constexpr std::int64_t rows = 23, columns = 17;
    const auto some = [&] {
      const std::int64_t first_row = below(rows), first_column = below(columns);
      return Region{rows, columns, first_row, below(rows - first_row + 1), first_column, below(columns - first_column + 1)};
    };
    std::vector<Region> all;
    for (int i = 0; i < 6; ++i) all.push_back(some());
    const Region wanted = some();
    std::vector<int> covered(rows * columns), there(rows * columns);
    const auto count = [&](const Region& region, std::vector<int>& cells) {
      for (std::int64_t r = region.first_row; r < region.first_row + region.rows; ++r) {
        for (std::int64_t c = region.first_column; c < region.first_column + region.columns; ++c)
          ++cells[static_cast<std::size_t>(r * columns + c)];
      }
    };
    for (const Part& part : parts_of(wanted, all, static_cast<std::size_t>(trial) % all.size())) count(part.region, covered);
    std::vector<int> asked(rows * columns);
    count(wanted, asked);
    for (const Region& region : all) count(region, there);
    for (std::size_t cell = 0; cell < covered.size(); ++cell) REQUIRE(covered[cell] == (asked[cell] && there[cell] ? 1 : 0));
  }
}

TEST_CASE("cuts keep where the mass is", "[checkpoint]") {
  const Region whole = range_of(1000, 0, 1000);
  const std::vector<std::uint64_t> four = {0, 100, 200, 300, 1000};  // a quarter of the mass in each
  const std::vector<Cuts> old = {{whole, four}, {whole, four}};
  CHECK(cut_anew(old, whole, 4) == four);
  CHECK(cut_anew(old, whole, 2) == std::vector<std::uint64_t>{0, 200, 1000});
  CHECK(cut_anew(old, whole, 8) == std::vector<std::uint64_t>{0, 50, 100, 150, 200, 250, 300, 650, 1000});
  CHECK(cut_anew(old, whole, 1) == std::vector<std::uint64_t>{0, 1000});
  CHECK(cut_anew(old, range_of(1000, 0, 300), 3) == std::vector<std::uint64_t>{0, 100, 200, 300});
  CHECK(cut_anew({}, whole, 4) == std::vector<std::uint64_t>{0, 250, 500, 750, 1000});
  const std::vector<std::uint64_t> half = {0, 500};
  const std::vector<Cuts> halves = {{range_of(1000, 0, 500), half}, {range_of(1000, 500, 500), half}};
  CHECK(cut_anew(halves, whole, 2) == std::vector<std::uint64_t>{0, 500, 1000});
  CHECK(cut_anew(old, range_of(1000, 0, 0), 3) == std::vector<std::uint64_t>{0, 0, 0, 0});
  for (int regions = 1; regions < 40; ++regions) {
    const std::vector<std::uint64_t> cuts = cut_anew(old, range_of(1000, 37, 13), regions);
    CHECK(std::is_sorted(cuts.begin(), cuts.end()));
    CHECK(cuts.back() == 13);
  }
}

}  // namespace weir::checkpoint
