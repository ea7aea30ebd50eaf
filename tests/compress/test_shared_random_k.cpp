// Places in strata, and the compressor that sums the same places of all ranks.
#include <cmath>
#include <random>

#include "compress/linear_runs.hpp"
#include "compress/strata.hpp"

namespace weir::test {
namespace {

using compress::Strata;
using Floats = std::vector<float>;

std::vector<std::uint32_t> places_of(const Strata& strata, const Draw& draw) {
  std::vector<std::uint32_t> places(static_cast<std::size_t>(strata.k));
  compress::stratum_places(strata, draw, places.data());
  return places;
}

Floats normal_numbers(std::int64_t n, int rank, int iteration) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank + iteration + 1));
  std::normal_distribution<float> normal;
  Floats x(static_cast<std::size_t>(n));
  for (float& value : x) value = normal(random);
  return x;
}

LinearCase shared_random_k(std::int64_t n, std::int64_t k, int ranks, const std::string& parameters = "") {
  return {.compressor = "shared_random_k", .parameters = parameters, .count = n, .k = k, .ranks = ranks, .divisor = 3};
}

// 2^32 elements overflow nothing.
constexpr std::int64_t large = std::int64_t{1} << 32;
static_assert(Strata{large, large}.begin(large) == large && Strata{large, large}.size(large - 1) == 1);
static_assert(Strata{large, large - 1}.begin(large - 1) == large && Strata{large, large - 1}.begin(large - 2) == large - 2);
static_assert(compress::stratum_place(Strata{large, 1}, 0, 0xffffffff) == large - 1);
static_assert(compress::stratum_place(Strata{large, large}, large - 1, 0xffffffff) == large - 1);

}  // namespace

TEST_CASE("strata cut a range as i n / k does, and have one place each", "[strata]") {
  for (const std::int64_t n : {1, 2, 3, 10, 100, 1001}) {
    for (const std::int64_t k : {1, 2, 3, 7, 10, 99, 100, 1001}) {
      if (k > n) continue;
      const Strata strata{n, k};
      for (std::int64_t i = 0; i <= k; ++i) REQUIRE(strata.begin(i) == i * n / k);
      for (std::uint64_t iteration = 0; iteration < 20; ++iteration) {
        const Draw draw{.seed = 5, .iteration = iteration, .stream = 2};
        const auto places = places_of(strata, draw);
        for (std::int64_t i = 0; i < k; ++i) {
          const auto place = static_cast<std::int64_t>(places[static_cast<std::size_t>(i)]);
          REQUIRE(place >= strata.begin(i));
          REQUIRE(place < strata.begin(i + 1));
          REQUIRE(place == compress::stratum_place(strata, draw, i));
        }
      }
    }
  }
}

TEST_CASE("places of a stratum are equally likely, and differ by seed, iteration and stream", "[strata]") {
  const Strata strata{70, 10};
  std::vector<int> counts(70);
  constexpr int draws = 20000;
  for (int t = 0; t < draws; ++t) {
    for (const std::uint32_t place : places_of(strata, {.seed = 3, .iteration = static_cast<std::uint64_t>(t)})) ++counts[place];
  }
  double squares = 0;
  for (const int count : counts) squares += std::pow(count - draws / 7.0, 2) / (draws / 7.0);
  REQUIRE(squares < 60 + 5 * std::sqrt(120));  // chi-squared of 10 times 6 degrees of freedom
  const Strata many{10000, 100};
  const auto places = places_of(many, {.seed = 1, .iteration = 1, .stream = 1});
  REQUIRE(places == places_of(many, {.seed = 1, .iteration = 1, .stream = 1}));
  for (const Draw& other : {Draw{2, 1, 1}, Draw{1, 2, 1}, Draw{1, 1, 2}}) {
    const auto others = places_of(many, other);
    int same = 0;
    for (std::size_t i = 0; i < places.size(); ++i) same += places[i] == others[i];
    REQUIRE(same < 10);
  }
}

TEST_CASE("shared random places deliver the sum there, and keep the rest", "[shared_random_k]") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 0}, {1, 1}, {7, 3}, {1000, 1}, {1000, 10}, {999, 100}, {500, 500}}) {
      for (const std::string parameters : {"", "unbiased=1"}) {
        CAPTURE(ranks, n, k, parameters);
        const LinearCase test = shared_random_k(n, k, ranks, parameters);
        const auto values = [n = n](int rank, int t) { return normal_numbers(n, rank, t); };
        const auto results = run_linear(test, 3, values);
        const Strata strata{n, k};
        for (std::size_t t = 0; t < results.size(); ++t) {
          const LinearResult& result = results[t];
          REQUIRE(linear_law(test, result) == "");
          std::vector<bool> delivered(static_cast<std::size_t>(n));
          const auto places = places_of(strata, {.seed = 17, .iteration = t, .stream = static_cast<std::uint32_t>(ranks)});
          for (std::size_t i = 0; i < places.size(); ++i) {
            delivered[places[i]] = true;
            const float scale = parameters.empty() ? 1.0f : static_cast<float>(strata.size(static_cast<std::int64_t>(i)));
            double sum = 0, magnitude = 0;
            for (std::size_t r = 0; r < result.values.size(); ++r) {
              const float value = result.values[r][places[i]], travels = value * scale;
              sum += static_cast<double>(travels);
              magnitude += std::abs(static_cast<double>(travels));
              REQUIRE(result.rest[r][places[i]] == value - travels);
            }
            REQUIRE(std::abs(static_cast<double>(result.out[0][places[i]]) - sum / 3) <= 1e-6 * magnitude);
          }
          for (std::size_t i = 0; i < delivered.size(); ++i) {
            if (delivered[i]) continue;
            REQUIRE(result.out[0][i] == 0);
            for (std::size_t r = 0; r < result.values.size(); ++r) REQUIRE(result.rest[r][i] == result.values[r][i]);
          }
        }
        for (const Aliases aliases : {Aliases::none, Aliases::out, Aliases::rest, Aliases::no_rest}) {
          const auto again = run_linear(test, 3, values, aliases, 5);
          for (std::size_t t = 0; t < results.size(); ++t) {
            REQUIRE(again[t].out == results[t].out);
            if (aliases != Aliases::no_rest) REQUIRE(again[t].rest == results[t].rest);
          }
        }
      }
    }
  }
}

TEST_CASE("unbiased shared random places have the right mean", "[shared_random_k]") {
  constexpr std::int64_t n = 23, k = 5;
  constexpr int iterations = 20000;
  const auto results =
      run_linear(shared_random_k(n, k, 2, "unbiased=1"), iterations, [](int rank, int) { return normal_numbers(n, rank, 0); });
  for (std::size_t i = 0; i < n; ++i) {
    const double expected = (static_cast<double>(results[0].values[0][i]) + static_cast<double>(results[0].values[1][i])) / 3;
    double sum = 0;
    for (const LinearResult& result : results) sum += static_cast<double>(result.out[0][i]);
    // A stratum has at most 5 elements: the variance is at most 4 x^2.
    REQUIRE(std::abs(sum / iterations - expected) <= 5 * 2 * std::abs(expected) / std::sqrt(iterations));
  }
}

TEST_CASE("shared random places allocate nothing", "[shared_random_k]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    LinearRank rank(shared_random_k(1000, 50, 3), comm);
    for (int t = 0; t < 3; ++t) {
      Floats values = normal_numbers(1000, comm.rank(), t), rest(1000), out(1000);
      rank.run(static_cast<std::uint64_t>(t), values, rest, out);
      if (t > 0) check.that(rank.allocations() == 0, "a run allocates");
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
