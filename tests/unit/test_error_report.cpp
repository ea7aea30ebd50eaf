// A rank's error in one word: the largest kind wins, then the lowest rank.
#include <algorithm>
#include <vector>

#include "base/error_report.hpp"
#include "support/catch.hpp"

using namespace weir;

namespace {

enum class Fault : std::uint8_t { none = 0, small, large, last = 31 };

}  // namespace

TEST_CASE("error reports: what goes in comes out, up to what there is room for") {
  STATIC_REQUIRE(!ErrorReport());
  STATIC_REQUIRE(!ErrorReport(Fault::none, 3, 7));
  for (const Fault kind : {Fault::small, Fault::large, Fault::last}) {
    for (const int rank : {0, 1, 33, (1 << 20) - 1}) {
      for (const std::uint64_t detail : {std::uint64_t{0}, std::uint64_t{1}, ErrorReport::most_detail, ~std::uint64_t{0}}) {
        const ErrorReport report = ErrorReport::of_word(ErrorReport(kind, rank, detail).word());
        REQUIRE(report);
        REQUIRE(report.kind<Fault>() == kind);
        REQUIRE(report.rank() == rank);
        REQUIRE(report.detail() == std::min(detail, ErrorReport::most_detail));
      }
    }
  }
}

TEST_CASE("error reports: the largest kind wins, then the lowest rank") {
  const std::vector<ErrorReport> reports = {{}, {Fault::small, 0, 9}, {Fault::large, 6, 1}, {Fault::large, 5}, {Fault::none, 1}};
  const ErrorReport most = *std::max_element(reports.begin(), reports.end());
  REQUIRE(most.kind<Fault>() == Fault::large);
  REQUIRE(most.rank() == 5);
}
