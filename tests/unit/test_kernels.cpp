// test_kernels.cpp: runs the same tests on the kernels of every memory space. Each must equal the contract bit for bit, so all are
// equal.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"
#include "support/kernel_data.hpp"
#include "support/kernel_sets.hpp"
#include "support/thinning.hpp"

namespace {

using weir::Key;
using weir::key_of;
using weir::KthKey;
using weir::select_padding;
using weir::test::Guarded;
using weir::test::keys_among;
using weir::test::Kind;
using weir::test::kinds;
using weir::test::left_out;
using weir::test::numbers;
using weir::test::same;
using weir::test::same_sums;
using weir::test::SmallCaches;
using Indices = std::vector<std::uint32_t>;
namespace reference = weir::kernels::reference;

constexpr std::array<std::int64_t, 16> sizes{0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 1023, 1025, 4097, 5000, 100003};

}  // namespace

TEMPLATE_TEST_CASE("compensate_select adds, selects and keeps the old residual of what it selects", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto gradient = numbers<T>(kind, n, 1), residual = numbers<T>(kind, n, 2);
      std::vector<T> sums(residual);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradient[i];
      for (const Key<T> threshold : keys_among(sums)) {
        if (!TestType::on_host && threshold > weir::key_infinity<T>) continue;  // which computed NaNs reach it depends on the GPU
        const auto hits = std::count_if(sums.begin(), sums.end(), [&](T v) { return key_of(v) >= threshold; });
        for (const std::int64_t capacity :
             std::set<std::int64_t>{0, 1, hits / 2, std::max<std::int64_t>(hits - 1, 0), hits, hits + 1, n}) {
          const Key<T> above = threshold / 2 + weir::key_infinity<T> / 2;
          const Key<T> keep_old = capacity % 3 == 0 ? threshold : capacity % 3 == 1 ? above : weir::key_infinity<T>;
          Guarded<T> g(gradient, 1), r(residual, 3), values(capacity + select_padding);
          Guarded<std::uint32_t> indices(capacity + select_padding);
          const auto found =
              TestType::compensate_select(g.data(), r.data(), n, threshold, keep_old, indices.data(), values.data(), capacity);

          Indices expected_indices;
          std::vector<T> expected_values, expected_residual(sums);
          for (std::size_t i = 0; i < sums.size(); ++i) {
            if (key_of(sums[i]) < threshold) continue;
            const bool fits = static_cast<std::int64_t>(expected_indices.size()) < capacity;
            if (key_of(sums[i]) >= (fits ? keep_old : weir::key_infinity<T>)) expected_residual[i] = residual[i];
            if (!fits) continue;
            expected_indices.push_back(static_cast<std::uint32_t>(i));
            expected_values.push_back(sums[i]);
          }
          INFO("n " << n << ", kind " << static_cast<int>(kind) << ", threshold " << threshold << ", capacity " << capacity);
          REQUIRE(found == hits);
          const std::int64_t stored = std::min<std::int64_t>(hits, capacity);
          REQUIRE(indices.first(stored) == expected_indices);
          REQUIRE(same_sums(values.first(stored), expected_values));
          REQUIRE(same_sums(r.all(), expected_residual));
          REQUIRE(same(g.all(), gradient));
          REQUIRE((g.intact() && r.intact() && values.intact() && indices.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("select finds what reaches the threshold, in index order", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 3);
      for (const Key<T> threshold : keys_among(x)) {
        const auto hits = std::count_if(x.begin(), x.end(), [&](T v) { return key_of(v) >= threshold; });
        for (const std::int64_t capacity : std::set<std::int64_t>{0, hits / 2, hits, n}) {
          Guarded<T> source(x, 1), values(capacity + select_padding);
          Guarded<std::uint32_t> indices(capacity + select_padding);
          const auto found = TestType::select(source.data(), n, threshold, indices.data(), values.data(), capacity);

          Indices expected_indices;
          std::vector<T> expected_values;
          for (std::size_t i = 0; i < x.size() && static_cast<std::int64_t>(expected_indices.size()) < capacity; ++i) {
            if (key_of(x[i]) < threshold) continue;
            expected_indices.push_back(static_cast<std::uint32_t>(i));
            expected_values.push_back(x[i]);
          }
          INFO("n " << n << ", kind " << static_cast<int>(kind) << ", threshold " << threshold << ", capacity " << capacity);
          REQUIRE(found == hits);
          const std::int64_t stored = std::min<std::int64_t>(hits, capacity);
          REQUIRE(indices.first(stored) == expected_indices);
          REQUIRE(same(values.first(stored), expected_values));
          REQUIRE((values.intact() && indices.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("kth_key agrees with sorting", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  std::vector<std::int64_t> counts(sizes.begin(), sizes.end());
  counts.insert(counts.end(), {32, 33, 256, 257, 2048, 2049, 32767, 32768});
  for (const std::int64_t n : counts) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      auto x = numbers<T>(kind, n, 5);
      if (kind == Kind::special) {  // among them the NaN that has the largest key of all
        for (std::size_t i = 0; i < x.size(); i += 7) x[i] = std::bit_cast<T>(~Key<T>{0});
      }
      std::vector<Key<T>> keys;
      for (const T value : x) {
        if (key_of(value) != 0) keys.push_back(key_of(value));
      }
      std::sort(keys.rbegin(), keys.rend());
      const auto nonzero = static_cast<std::int64_t>(keys.size());
      for (const std::int64_t k : std::set<std::int64_t>{1, 2, n / 100 + 1, n / 2 + 1, std::max<std::int64_t>(n, 1), n + 1,
                                                         std::max<std::int64_t>(nonzero, 1), nonzero + 1}) {
        Guarded<T> source(x, 1);
        const KthKey<T> found = TestType::kth_key(source.data(), n, k);
        const Key<T> expected = k <= nonzero ? keys[static_cast<std::size_t>(k - 1)] : Key<T>{1};
        INFO("n " << n << ", kind " << static_cast<int>(kind) << ", k " << k);
        REQUIRE(found.key == expected);
        REQUIRE(found.greater == std::count_if(keys.begin(), keys.end(), [&](Key<T> key) { return key > expected; }));
        REQUIRE(found.equal == std::count(keys.begin(), keys.end(), expected));
      }
    }
  }
}

TEMPLATE_TEST_CASE("kth_key resolves keys that differ in any digit", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const std::int64_t n = 20000;
  for (int spread = 1; spread <= weir::key_bits<T>; ++spread) {
    std::mt19937_64 random(static_cast<unsigned>(spread));
    std::vector<T> x(static_cast<std::size_t>(n));
    const Key<T> mask = static_cast<Key<T>>((Key<T>{1} << spread) - 1);
    const Key<T> base = (key_of(T(1.7)) & ~mask);
    for (T& value : x) value = std::bit_cast<T>(static_cast<Key<T>>(base | (static_cast<Key<T>>(random()) & mask)));
    for (const std::int64_t k : {std::int64_t{1}, n / 3, n}) {
      const KthKey<T> expected = reference::kth_key(x.data(), n, k), found = TestType::kth_key(x.data(), n, k);
      INFO("spread " << spread << ", k " << k);
      REQUIRE(found.key == expected.key);
      REQUIRE(found.greater == expected.greater);
      REQUIRE(found.equal == expected.equal);
    }
  }
}

TEMPLATE_TEST_CASE("kth_key of many agrees with sorting", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const std::int64_t n = 40000;
  for (const Kind kind : kinds) {
    for (const char* order : {"any", "ascending", "few large in a row", "zeros between"}) {
      if (left_out()) continue;
      auto x = numbers<T>(kind, n, 6);
      const auto by_key = [](T a, T b) { return key_of(a) < key_of(b); };
      if (order == std::string("ascending")) std::sort(x.begin(), x.end(), by_key);
      if (order == std::string("few large in a row"))
        std::partial_sort(x.begin(), x.begin() + 300, x.end(), [&](T a, T b) { return by_key(b, a); });
      for (std::size_t i = 0; order == std::string("zeros between") && i < x.size(); ++i) x[i] = i % 4 == 0 ? x[i] : T{0};
      for (const std::int64_t k : {std::int64_t{1}, n / 100, n / 4, n / 2, n * 19 / 20, n * 199 / 200, n, n + 1}) {
        const KthKey<T> expected = reference::kth_key(x.data(), n, k), found = TestType::kth_key(x.data(), n, k);
        INFO("kind " << static_cast<int>(kind) << ", order " << order << ", k " << k);
        REQUIRE(found.key == expected.key);
        REQUIRE(found.greater == expected.greater);
        REQUIRE(found.equal == expected.equal);
      }
    }
  }
}

TEMPLATE_TEST_CASE("histogram adds to its bins", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      Guarded<T> x(numbers<T>(kind, n, 6), 1);
      const Key<T> one = key_of(T(1)), tenth = key_of(T(0.1));
      for (const auto& [low, high] :
           {std::pair<Key<T>, Key<T>>{0, weir::key_infinity<T>}, {1, weir::key_infinity<T>}, {tenth, one}, {one, one}, {1, one}}) {
        for (const Key<T> bin_limit : {Key<T>{1}, Key<T>{300}, Key<T>{5000}}) {
          int shift = 0;
          while ((high - low) >> shift >= bin_limit) ++shift;
          Guarded<std::uint64_t> bins(static_cast<std::int64_t>(bin_limit));
          std::vector<std::uint64_t> expected = bins.all();
          std::uint64_t above = 5, expected_above = 5;
          TestType::histogram(x.data(), n, low, high, shift, bins.data(), &above);
          for (const T value : x.all()) {
            const Key<T> key = key_of(value);
            if (key > high) ++expected_above;
            if (key != 0 && key >= low && key <= high) ++expected[static_cast<std::size_t>((key - low) >> shift)];
          }
          REQUIRE(bins.all() == expected);
          REQUIRE(above == expected_above);
          REQUIRE(bins.intact());
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("values_within copies the values with keys in the range", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const std::vector<T> x = numbers<T>(kind, n, 6);
      const Key<T> one = key_of(T(1)), tenth = key_of(T(0.1)), last = weir::key_infinity<T>, largest = ~Key<T>{0} >> 1;
      for (const auto& [low, high] :
           {std::pair<Key<T>, Key<T>>{1, last}, {tenth, one}, {one, one}, {1, one}, {one, last}, {1, largest}}) {
        std::vector<T> expected;
        for (const T value : x) {
          if (key_of(value) >= low && key_of(value) <= high) expected.push_back(value);
        }
        const auto count = static_cast<std::int64_t>(expected.size());
        Guarded<T> out(std::min(count + weir::select_padding, n));
        REQUIRE(TestType::values_within(x.data(), n, low, high, out.data()) == count);
        REQUIRE(same(std::vector<T>(out.data(), out.data() + count), expected));
        REQUIRE(out.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("moments and exceedances add up in the order of their contract", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  // A GPU adds in another order. Sums differ by rounding, and by any amount if magnitudes are not finite.
  const auto same_sum = [](double a, double b, double magnitudes) {
    if (!TestType::on_host) return std::abs(a - b) <= 1e-12 * magnitudes || !std::isfinite(magnitudes);
    return std::bit_cast<Key<double>>(a) == std::bit_cast<Key<double>>(b) || (a != a && b != b);
  };
  // A computed NaN has the GPU's own bits.
  const auto same_key = [](Key<T> a, Key<T> b) {
    return a == b || (!TestType::on_host && a > weir::key_infinity<T> && b > weir::key_infinity<T>);
  };
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      for (const bool paired : {false, true}) {
        Guarded<T> x(numbers<T>(kind, n, 11), 1), y(numbers<T>(kind, n, 12), 3);
        std::vector<T> values = x.all();
        for (std::int64_t i = 0; i < n && paired; ++i) values[static_cast<std::size_t>(i)] += y.data()[i];
        for (const Key<T> threshold : keys_among(values)) {
          if (!TestType::on_host && threshold > weir::key_infinity<T>) continue;  // which computed NaNs reach it depends on the GPU
          std::array<std::array<double, 16>, 3> sums{};
          double magnitudes = 0;
          std::int64_t reaching = 0;
          Key<T> largest = 0;
          for (std::size_t i = 0; i < values.size(); ++i) {
            const double wide = values[i];
            const volatile double square = wide * wide;  // never fused with the addition
            sums[0][i % 16] += wide;
            magnitudes += std::abs(wide);
            sums[1][i % 16] += square;
            if (key_of(values[i]) < threshold) continue;
            sums[2][i % 16] += std::abs(wide);
            ++reaching;
            largest = std::max(largest, key_of(values[i]));
          }
          for (auto& sum : sums) {
            for (std::size_t distance = 8; distance > 0; distance /= 2) {
              for (std::size_t j = 0; j < distance; ++j) sum[j] += sum[j + distance];
            }
          }
          INFO("n " << n << ", kind " << static_cast<int>(kind) << ", paired " << paired << ", threshold " << threshold);
          const auto exceedances = TestType::exceedances(x.data(), paired ? y.data() : nullptr, n, threshold);
          REQUIRE(exceedances.count == reaching);
          REQUIRE(same_key(exceedances.largest, largest));
          REQUIRE(same_sum(exceedances.sum_magnitudes, sums[2][0], magnitudes));
          if (threshold != 0) continue;
          const auto moments = TestType::moments(x.data(), paired ? y.data() : nullptr, n);
          REQUIRE(moments.count == n);
          REQUIRE(same_key(moments.largest, largest));
          REQUIRE(same_sum(moments.sum, sums[0][0], magnitudes));
          REQUIRE(same_sum(moments.sum_squares, sums[1][0], sums[1][0]));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("element-wise kernels", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 7), y = numbers<T>(kind, n, 8);
      std::vector<T> sum(y), product(y), quotient(y);
      const T factor = T(1) / T(3), divisor = T(7);
      std::int64_t non_finite = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum[i] += x[i];
        product[i] *= factor;
        quotient[i] /= divisor;
        non_finite += key_of(x[i]) >= weir::key_infinity<T>;
      }
      Guarded<T> source(x, 1), added(y, 2), scaled(y, 1), divided(y, 3);
      TestType::add(source.data(), added.data(), n);
      TestType::scale(scaled.data(), n, factor);
      TestType::divide(divided.data(), n, divisor);
      REQUIRE(same_sums(added.all(), sum));
      REQUIRE(same_sums(scaled.all(), product));
      REQUIRE(same_sums(divided.all(), quotient));
      REQUIRE(TestType::count_non_finite(source.data(), n) == non_finite);
      REQUIRE(same(source.all(), x));
      REQUIRE((added.intact() && scaled.intact() && divided.intact()));
    }
  }
}

TEMPLATE_TEST_CASE("rescale keeps what is finite finite", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const T most = std::numeric_limits<T>::max(), large = std::sqrt(most);
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 9);
      for (const T factor : {T(1) / T(3), T(0x1p40), large, most}) {
        std::vector<T> expected(x);
        for (T& value : expected) {
          const bool was_finite = std::isfinite(value);
          value *= factor;
          if (was_finite && std::isinf(value)) value = std::copysign(most, value);
        }
        INFO("n " << n << ", kind " << static_cast<int>(kind) << ", factor " << factor);
        Guarded<T> out(x, 1);
        TestType::rescale(out.data(), n, factor);
        REQUIRE(same_sums(out.all(), expected));
        REQUIRE(out.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("waxpby rounds products and sums by themselves", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const T a = T(1) / T(3), b = T(-7) / T(9);
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 7), y = numbers<T>(Kind::heavy_tailed, n, 8);
      std::vector<T> scaled(x), both(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        volatile T ax = a * x[i], by = b * y[i];  // volatile, so that no compiler fuses them
        scaled[i] = ax;
        both[i] = ax + by;
      }
      INFO("n " << n << ", kind " << static_cast<int>(kind));
      Guarded<T> source(x, 1), other(y, 2), out(y, 3);
      TestType::waxpby(a, source.data(), b, nullptr, out.data(), n);
      REQUIRE(same_sums(out.all(), scaled));
      TestType::waxpby(a, source.data(), b, other.data(), out.data(), n);
      REQUIRE(same_sums(out.all(), both));
      REQUIRE((same(source.all(), x) && same(other.all(), y)));
      TestType::waxpby(a, source.data(), b, other.data(), other.data(), n);
      REQUIRE(same_sums(other.all(), both));
      Guarded<T> again(y, 2);
      TestType::waxpby(a, source.data(), b, again.data(), source.data(), n);
      REQUIRE(same_sums(source.all(), both));
      REQUIRE((source.intact() && other.intact() && out.intact()));
    }
  }
}

TEMPLATE_TEST_CASE("fill_zero fills exactly its range, cached and streamed", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const SmallCaches small;
  std::vector<std::int64_t> counts(sizes.begin(), sizes.end());
  counts.insert(counts.end(), {262144, 262145, 600001});
  for (const std::int64_t n : counts) {
    for (std::size_t offset = 0; offset < 17; offset += 4) {
      Guarded<T> x(n, offset + 1);
      TestType::fill_zero(x.data(), n);
      REQUIRE(same(x.all(), std::vector<T>(static_cast<std::size_t>(n))));
      REQUIRE(x.intact());
    }
  }
}

TEST_CASE("caches keep a megabyte at least", "[kernels]") { REQUIRE(weir::kernels::host::cached_bytes() >= 1 << 20); }

TEST_CASE("the instruction set has a name", "[kernels]") { REQUIRE(std::strlen(weir::kernels::host::instruction_set()) > 0); }
