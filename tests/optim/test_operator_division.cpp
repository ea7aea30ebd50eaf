// A row of parts is cut so that the largest work of an owner is smallest. The cost functions predict the gain of dividing.
#include <numeric>
#include <random>

#include "optim/division.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using optim::Begins;

std::vector<OperatorPart> parts_of(const std::vector<double>& seconds) {
  std::vector<OperatorPart> parts;
  for (const double s : seconds) parts.push_back({.seconds = s, .result_bytes = 8});
  return parts;
}

/// Returns the result of the best cut, by trying all.
double least_longest(std::span<const OperatorPart> parts, int owners) {
  double all = 0;
  for (const OperatorPart& part : parts) all += part.seconds;
  if (owners == 1) return all;
  double best = all, first = 0;
  for (std::size_t cut = 0; cut <= parts.size(); ++cut) {
    best = std::min(best, std::max(first, least_longest(parts.subspan(cut), owners - 1)));
    if (cut < parts.size()) first += parts[cut].seconds;
  }
  return best;
}

void check_cuts(const std::vector<OperatorPart>& parts, int owners) {
  const Begins begins = optim::balanced(parts, owners);
  REQUIRE(begins.size() == static_cast<std::size_t>(owners) + 1);
  REQUIRE(begins.front() == 0);
  REQUIRE(begins.back() == parts.size());
  REQUIRE(std::is_sorted(begins.begin(), begins.end()));
}

}  // namespace

TEST_CASE("parts are cut as well as can be", "[optim]") {
  std::mt19937 random(1);
  for (int owners : {1, 2, 3, 4}) {
    for (int size : {0, 1, 2, 3, 5, 8, 11}) {
      for (int repetition = 0; repetition < 10; ++repetition) {
        std::vector<double> seconds(static_cast<std::size_t>(size));
        for (double& s : seconds) s = static_cast<double>(random() % 20);
        const std::vector<OperatorPart> parts = parts_of(seconds);
        INFO("owners " << owners << " parts " << size << " repetition " << repetition);
        check_cuts(parts, owners);
        REQUIRE(optim::longest(parts, optim::balanced(parts, owners)) == least_longest(parts, owners));
      }
    }
  }
}

TEST_CASE("more owners than parts, and parts that cost nothing", "[optim]") {
  for (int owners : {1, 3, 7, 33, 257}) {
    check_cuts(parts_of({}), owners);
    check_cuts(parts_of({1}), owners);
    check_cuts(parts_of({0, 0, 0, 0, 0}), owners);
    check_cuts(parts_of({0, 5, 0, 0, 1, 0}), owners);
  }
}

TEST_CASE("cuts of sums that doubles do not hold exactly", "[optim]") {
  const std::vector<OperatorPart> parts = parts_of(std::vector<double>(1000, 0.1));
  for (int owners : {1, 2, 3, 7, 33, 999, 1000, 1001}) {
    check_cuts(parts, owners);
    const double fair = 0.1 * std::ceil(1000.0 / owners);
    REQUIRE(optim::longest(parts, optim::balanced(parts, owners)) <= fair * (1 + 1e-12));
  }
}

TEST_CASE("work is worth dividing where it takes longer than gathering its results", "[optim]") {
  const Machine& machine = builtin_machine();
  const Problem ranks{.count = 1, .k = 1, .ranks = 8, .nodes = 2, .smallest_node = 4, .largest_node = 4};
  const auto cost = [&](const std::vector<OperatorPart>& parts, OperatorDivision division) {
    return optim::cost_of(machine, ranks, parts, false, division);
  };
  const std::vector<OperatorPart> heavy = parts_of(std::vector<double>(80, 1e-3)), light = parts_of(std::vector<double>(80, 1e-9));
  REQUIRE(cost(heavy, OperatorDivision::replicated).work == Approx(80e-3));
  REQUIRE(cost(heavy, OperatorDivision::node).work == Approx(20e-3));
  REQUIRE(cost(heavy, OperatorDivision::all).work == Approx(10e-3));
  REQUIRE(cost(heavy, OperatorDivision::all).seconds() < cost(heavy, OperatorDivision::node).seconds());
  REQUIRE(cost(heavy, OperatorDivision::node).seconds() < cost(heavy, OperatorDivision::replicated).seconds());
  REQUIRE(cost(light, OperatorDivision::replicated).seconds() < cost(light, OperatorDivision::node).seconds());
  REQUIRE(cost(light, OperatorDivision::node).gather < cost(light, OperatorDivision::all).gather);
}

}  // namespace weir::test
