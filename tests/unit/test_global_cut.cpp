// The cut of the k largest entries: of a range that has been found, and how many rounds that takes.
#include "collectives/global_kth.hpp"
#include "support/catch.hpp"

namespace weir::test {

TEST_CASE("the cut of a range: known, or among its values") {
  const Key<float> one = key_of(1.0f), two = key_of(2.0f);
  const CutRange<float> all{one, two, 3, 3};
  REQUIRE(all.is_known());
  REQUIRE(all.cut().key == one - 1);
  REQUIRE(all.cut().ties == 0);

  const CutRange<float> tied{two, two, 5, 2};
  REQUIRE(tied.is_known());
  REQUIRE(tied.cut().key == two);
  REQUIRE(tied.cut().ties == 2);

  const CutRange<float> open{one, two, 4, 2};
  REQUIRE_FALSE(open.is_known());
  const float inside[] = {1.5f, -2.0f, -1.5f, 1.0f};
  REQUIRE(open.cut_among(inside).key == key_of(1.5f));
  REQUIRE(open.cut_among(inside).ties == 1);
}

TEST_CASE("a single value in doubt is never shown: the range would take all") {
  for (int ranks = 1; ranks <= 300; ++ranks) REQUIRE(few_in_messages(ranks) != 1);
  REQUIRE(few_in_messages(128) == 2);
  REQUIRE(few_in_messages(129) == 0);
}

TEST_CASE("usual rounds of histograms") {
  REQUIRE(usual_rounds(0, 0) == 1);
  REQUIRE(usual_rounds(1000, few_in_messages(4)) == 1);
  REQUIRE(usual_rounds(1000, 0) == 2);
  REQUIRE(usual_rounds(40000, few_in_messages(4)) == 2);
  REQUIRE(usual_rounds(40000, 0) == 3);
}

}  // namespace weir::test
