// Stripes give every index to one rank, at places that ascend with the indices.
#include <algorithm>
#include <limits>
#include <vector>

#include "sums/stripes.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"

namespace weir::test {

using sums::Stripes;

TEST_CASE("stripes give each rank every place once, in the order of indices", "[sums]") {
  for (const int ranks : {1, 2, 3, 5, 7, 33}) {
    for (const int bits : {0, 1, 3, 8}) {
      for (const std::int64_t count : {0, 1, 2, 255, 256, 257, 3000, 20001}) {
        const Stripes stripes(count, ranks, bits);
        std::vector<std::int64_t> next(static_cast<std::size_t>(ranks));
        INFO("P " << ranks << " bits " << bits << " n " << count);
        for (std::int64_t index = 0; index < count; ++index) {
          const Stripes::Stripe stripe = stripes.with_index(index);
          std::int64_t& place = next.at(static_cast<std::size_t>(stripe.rank));
          const Stripes::Stripe back = stripes.with_place(stripe.rank, place);
          const bool same = back.rank == stripe.rank && back.last == stripe.last && back.before == stripe.before;
          if (index - stripe.before != place || !same || stripe.last < index || (stripe.last - index) >> bits != 0)
            FAIL("index " << index);
          ++place;
        }
        for (int rank = 0; rank < ranks; ++rank) REQUIRE(stripes.places(rank) == next[static_cast<std::size_t>(rank)]);
      }
    }
  }
}

TEST_CASE("stripes balance indices at any distance", "[sums]") {
  constexpr int ranks = 7, entries = 7000;
  const Stripes stripes(std::int64_t{1} << 40, ranks, 8);
  for (const std::int64_t distance : {1 << 6, 1 << 8, 7 << 8, 7 << 12, 1 << 20, (1 << 20) + 1}) {
    std::vector<int> owned(ranks);
    for (std::int64_t i = 0; i < entries; ++i) ++owned[static_cast<std::size_t>(stripes.with_index(i * distance).rank)];
    INFO("distance " << distance);
    REQUIRE(*std::max_element(owned.begin(), owned.end()) < 1.2 * entries / ranks);
  }
}

TEST_CASE("stripes reach to the largest index", "[sums]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Stripes stripes(most, 5, 8);
  const Stripes::Stripe stripe = stripes.with_index(most - 1);
  REQUIRE(stripe.last == most);
  const Stripes::Stripe back = stripes.with_place(stripe.rank, most - 1 - stripe.before);
  REQUIRE((back.last == most && back.before == stripe.before));
  std::int64_t places = 0;
  for (int rank = 0; rank < 5; ++rank) places += stripes.places(rank);
  REQUIRE(places == most);
}

}  // namespace weir::test
