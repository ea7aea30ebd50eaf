// Reproducible sums: the bits of the obvious loops, whatever the order of the terms, and as near to the exact sum as promised.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/sum_of_few.hpp"
#include "support/catch.hpp"
#include "support/exact_sum.hpp"
#include "support/kernel_sets.hpp"

namespace weir::test {
namespace {

using Terms = std::vector<std::vector<double>>;

/// Terms of all magnitudes between 2^least and 2^most. Some cancel, and some are zero.
template <class T>
Terms spread_terms(int count, std::int64_t n, double least, double most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(least, most), mantissa(1, 2);
  Terms terms;
  for (int j = 0; j < count; ++j) {
    std::vector<double> term;
    for (std::int64_t i = 0; i < n; ++i) {
      const double magnitude =
          static_cast<double>(static_cast<T>(std::ldexp(mantissa(random), static_cast<int>(exponent(random)))));
      const std::uint64_t kind = random() % 8;
      const bool cancels = kind == 0 && j > 0;
      term.push_back(cancels         ? -terms[random() % terms.size()][static_cast<std::size_t>(i)]
                     : kind == 1     ? -0.0
                     : kind % 2 == 0 ? magnitude
                                     : -magnitude);
    }
    terms.push_back(term);
  }
  return terms;
}

template <class Set>
std::vector<typename Set::T> sum_of(const Terms& terms, double divisor = 1) {
  using T = typename Set::T;
  std::vector<std::vector<T>> stored;
  std::vector<const T*> places;
  for (const auto& term : terms) {
    stored.emplace_back();
    for (const double x : term) stored.back().push_back(static_cast<T>(x));
  }
  for (const auto& term : stored) places.push_back(term.data());
  std::vector<T> out(stored[0].size());
  const auto n = static_cast<std::int64_t>(out.size()), middle = n / 3;
  Set::reproducible_sum(places.data(), static_cast<int>(places.size()), 0, middle, divisor, out.data());
  Set::reproducible_sum(places.data(), static_cast<int>(places.size()), middle, n, divisor, out.data());
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::bit_cast<Key<T>>(x) == std::bit_cast<Key<T>>(y); });
}

double error_of(double sum, const Terms& terms, std::size_t i) {
  std::vector<double> values;
  for (const auto& term : terms) values.push_back(term[i]);
  return error_of_sum(sum, values);
}

}  // namespace

TEMPLATE_TEST_CASE("reproducible sums have the bits of the obvious loops in any order", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  const double far = sizeof(T) == 4 ? 120 : 1000, tiny = sizeof(T) == 4 ? -149 : -1074;
  std::mt19937_64 random(1);
  for (const int count : {1, 2, 3, 7, 33, 200}) {
    for (const std::int64_t n : {1, 2, 7, 16, 65}) {
      for (const auto& [least, most] : {std::pair{-3.0, 3.0}, {-40.0, 20.0}, {tiny, far}, {tiny, tiny + 30}, {far - 40, far}}) {
        INFO(count << " terms of 2^" << least << " to 2^" << most << ", n " << n);
        Terms terms = spread_terms<T>(count, n, least, most, static_cast<std::uint64_t>(count * 100 + n));
        const std::vector<T> sum = sum_of<TestType>(terms, 3);
        REQUIRE(same_bits(sum, sum_of<Reference<T>>(terms, 3)));
        terms.emplace_back(static_cast<std::size_t>(n), -0.0);
        std::shuffle(terms.begin(), terms.end(), random);
        REQUIRE(same_bits(sum, sum_of<TestType>(terms, 3)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("reproducible sums are as near to the exact sum as promised", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  const double far = sizeof(T) == 4 ? 120 : 1000, tiny = sizeof(T) == 4 ? -149 : -1074;
  for (const int count : {1, 2, 5, 64}) {
    for (const auto& [least, most] : {std::pair{-3.0, 3.0}, {-60.0, 30.0}, {tiny, tiny + 60}, {far - 50, far}}) {
      const Terms terms = spread_terms<T>(count, 100, least, most, static_cast<std::uint64_t>(count));
      const std::vector<T> sum = sum_of<TestType>(terms);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        double largest = 0;
        for (const auto& term : terms) largest = std::max(largest, std::abs(term[i]));
        const double result = static_cast<double>(sum[i]), dropped = count * largest * 0x1p-75;
        const double half = std::abs(result) * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
        const double least_half = static_cast<double>(std::numeric_limits<T>::denorm_min()) / 2;
        INFO(count << " terms of 2^" << least << " to 2^" << most << ", element " << i);
        // Sums of float32 are rounded twice.
        REQUIRE(error_of(result, terms, i) <= dropped * 1.01 + std::max(half, least_half) * (sizeof(T) == 4 ? 1.0001 : 1));
      }
    }
  }
}

TEMPLATE_TEST_CASE("totals do not depend on order and division, and are near to the exact sum", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  const double far = sizeof(T) == 4 ? 120 : 1000, tiny = sizeof(T) == 4 ? -149 : -1074;
  std::mt19937_64 random(1);
  for (const std::int64_t n : {1, 2, 3, 17, 1000, 10000}) {
    for (const auto& [least, most] :
         {std::pair{-3.0, 3.0}, {-60.0, 30.0}, {tiny, far}, {tiny, tiny + 60}, {far - 50, far}, {-1.0, 1.0}}) {
      INFO(n << " values of 2^" << least << " to 2^" << most);
      const Terms terms = spread_terms<T>(static_cast<int>(n), 1, least, most, static_cast<std::uint64_t>(n));
      std::vector<T> values;
      double largest = 0;
      for (const auto& term : terms) {
        values.push_back(static_cast<T>(term[0]));
        largest = std::max(largest, std::abs(term[0]));
      }
      ReproducibleTotal right;
      kernels::reference::add_to_total(values.data(), n, right);
      const double sum = right.value();
      const double half = std::abs(sum) * 0x1p-53 + std::numeric_limits<double>::denorm_min() / 2;
      REQUIRE(error_of(sum, terms, 0) <= half + static_cast<double>(n) * largest * 0x1p-85);
      for (int repeat = 0; repeat < 4; ++repeat) {
        std::shuffle(values.begin(), values.end(), random);
        ReproducibleTotal total, other;
        const auto middle = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1));
        TestType::add_to_total(values.data() + middle, n - middle, total);
        TestType::add_to_total(values.data(), middle, other);
        total.merge(other);
        REQUIRE(std::bit_cast<std::uint64_t>(total.value()) == std::bit_cast<std::uint64_t>(sum));
      }
    }
  }
}

TEMPLATE_TEST_CASE("totals do not depend on division where values are near their last unit", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  const auto total_of = [](const std::vector<T>& values) {
    ReproducibleTotal total;
    TestType::add_to_total(values.data(), std::ssize(values), total);
    return total;
  };
  for (int exponent = -20; exponent <= 40; ++exponent) {
    const T large = static_cast<T>(std::ldexp(1.75, exponent)), other = static_cast<T>(std::ldexp(1.5, exponent - 40));
    for (int far = 1; far <= 120; ++far) {
      for (const double mantissa : {1.0, 1.25, 1.9375}) {
        const T small = static_cast<T>(std::ldexp(mantissa, exponent - far));
        const std::vector<T> values = {large, other, small, -large, small};
        const double sum = total_of(values).value();
        ReproducibleTotal total = total_of({small});
        for (const std::vector<T>& part : {std::vector<T>{other}, {large, -large}, {small}}) total.merge(total_of(part));
        ReproducibleTotal right;
        kernels::reference::add_to_total(values.data(), std::ssize(values), right);
        INFO("2^" << exponent << ", 2^-" << far << " of it times " << mantissa << ": " << sum << ", divided " << total.value());
        REQUIRE(std::bit_cast<std::uint64_t>(sum) == std::bit_cast<std::uint64_t>(total.value()));
        REQUIRE(std::bit_cast<std::uint64_t>(sum) == std::bit_cast<std::uint64_t>(right.value()));
      }
    }
  }
}

TEMPLATE_TEST_CASE("totals of infinities, NaN, zeros and what overflows", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  constexpr T infinity = std::numeric_limits<T>::infinity(), most = std::numeric_limits<T>::max();
  const auto total_of = [](const std::vector<T>& values) {
    ReproducibleTotal total;
    TestType::add_to_total(values.data(), std::ssize(values), total);
    return total.value();
  };
  REQUIRE(total_of({}) == 0);
  REQUIRE(!std::signbit(total_of({T(-0.0), T(-0.0)})));
  REQUIRE(total_of({1, infinity, 2}) == std::numeric_limits<double>::infinity());
  REQUIRE(total_of({-infinity, 2, -infinity}) == -std::numeric_limits<double>::infinity());
  REQUIRE(std::isnan(total_of({-infinity, 2, infinity})));
  REQUIRE(std::isnan(total_of({1, std::numeric_limits<T>::quiet_NaN()})));
  REQUIRE(total_of({most, most, -most, -most, 1}) == 0);
  REQUIRE(total_of({most, -most}) == 0);
  REQUIRE(total_of({most, most}) == static_cast<double>(most) * 2);
  const T below_most = std::nextafter(most, T{0});
  REQUIRE(total_of({most, -below_most}) == static_cast<double>(most) - static_cast<double>(below_most));
  // 2^53 + 1 + 2^-30 is above the tie between 2^53 and 2^53 + 2.
  REQUIRE(total_of({T(0x1p53), 1}) == 0x1p53);
  REQUIRE(total_of({T(0x1p53), 1, T(0x1p-30)}) == 0x1p53 + 2);
  REQUIRE(total_of({T(-0x1p53), -1, T(-0x1p-30)}) == -0x1p53 - 2);
}

TEST_CASE("sums of few values have the bits of their total", "[kernels]") {
  const auto check = [](const std::vector<double>& values) {
    ReproducibleTotal total;
    kernels::reference::add_to_total(values.data(), std::ssize(values), total);
    const double sum = kernels::sum_of_few(values.data(), static_cast<int>(values.size()));
    INFO(values.size() << " values, sum " << sum << ", of their total " << total.value());
    REQUIRE(std::bit_cast<std::uint64_t>(sum) == std::bit_cast<std::uint64_t>(total.value()));
  };
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN(),
                   most = std::numeric_limits<double>::max();
  for (const std::vector<double>& values : std::vector<std::vector<double>>{{},
                                                                            {0},
                                                                            {-0.0, -0.0},
                                                                            {1, -1},
                                                                            {1, infinity},
                                                                            {-infinity, 2, -infinity},
                                                                            {-infinity, infinity},
                                                                            {1, -nan},
                                                                            {most, most, -most, -most, 1},
                                                                            {most, most},
                                                                            {0x1p53, 1},
                                                                            {0x1p53, 1, 0x1p-30},
                                                                            {-0x1p53, -1, -0x1p-30},
                                                                            {0x1p53, 1, 0x1p-60, -0x1p-20, 0x1p-90}})
    check(values);
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    const double x = std::ldexp(1, exponent), y = x * 1.75 + std::numeric_limits<double>::denorm_min();
    check({x});
    check({x, -y});
    for (const int far : {30, 31, 32, 33, 52, 60, 83, 84, 85, 86, 87, 88, 89, 113, 116, 117}) {
      // Halves of the last unit, and what lies beside them.
      const double small = std::ldexp(1, exponent - far);
      check({y, small});
      check({y, -small * 1.5, x});
      check({-y, std::nextafter(small, 0), small * 2});
      check({y, small * 3, -y, -small * 0.5, x});
    }
  }
  for (const int count : {1, 2, 3, 4, 7, 33, 64, 200}) {
    for (const auto& [least, largest] : {std::pair{-3.0, 3.0},
                                         {-40.0, 20.0},
                                         {-90.0, 0.0},
                                         {-1074.0, 1000.0},
                                         {-1074.0, -1000.0},
                                         {-850.0, -750.0},
                                         {970.0, 1020.0}}) {
      const Terms terms = spread_terms<double>(count, 300, least, largest, static_cast<std::uint64_t>(count));
      for (std::size_t i = 0; i < terms[0].size(); ++i) {
        std::vector<double> values;
        for (const auto& term : terms) values.push_back(term[i]);
        check(values);
      }
    }
  }
}

TEMPLATE_TEST_CASE("reproducible sums of infinities, NaN and zeros", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const Terms terms = {{infinity, infinity, -infinity, nan, -0.0, 1, most, most, 1},
                       {1, -infinity, 2, infinity, -0.0, -1, most, -most, 2},
                       {2, 1, -infinity, 1, -0.0, 0, -most, 1, 3}};
  const std::vector<T> sum = sum_of<TestType>(terms);
  const T same_infinity = std::numeric_limits<T>::infinity(), same_nan = std::numeric_limits<T>::quiet_NaN();
  REQUIRE(same_bits(sum, {same_infinity, same_nan, -same_infinity, same_nan, T(0), T(0), static_cast<T>(most), T(0), T(6)}));
}

}  // namespace weir::test
