// test_kernels.cpp: the same tests on the kernels of every memory space, each bit for bit against what the contract says, hence
// against each other.
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
using weir::test::Kind;
using weir::test::kinds;
using weir::test::left_out;
using weir::test::numbers;
using weir::test::same;
using weir::test::same_sums;
using Indices = std::vector<std::uint32_t>;
namespace reference = weir::kernels::reference;

constexpr std::array<std::int64_t, 16> sizes{0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 1023, 1025, 4097, 5000, 100003};

template <class T>
std::vector<Key<T>> thresholds(const std::vector<T>& x) {
  std::vector<Key<T>> result{0, 1, weir::key_infinity<T>, std::numeric_limits<Key<T>>::max() / 2,
                             std::numeric_limits<Key<T>>::max()};
  if (x.empty()) return result;
  const auto n = static_cast<std::int64_t>(x.size());
  for (const std::int64_t k : {std::int64_t{1}, n / 100 + 1, n / 4 + 1}) result.push_back(reference::kth_key(x.data(), n, k).key);
  return result;
}

Indices sorted_indices(std::size_t count, std::uint32_t range, unsigned seed) {
  std::mt19937 random(seed);
  std::set<std::uint32_t> chosen;
  while (chosen.size() < count) chosen.insert(random() % range);
  return Indices(chosen.begin(), chosen.end());
}

}  // namespace

TEMPLATE_TEST_CASE("compensate_select adds, selects and keeps the old residual of what it selects", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto gradient = numbers<T>(kind, n, 1), residual = numbers<T>(kind, n, 2);
      std::vector<T> sums(residual);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradient[i];
      for (const Key<T> threshold : thresholds(sums)) {
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
      for (const Key<T> threshold : thresholds(x)) {
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

TEMPLATE_TEST_CASE("select_ties takes all above the threshold and the first ties", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 4);
      for (const Key<T> threshold : thresholds(x)) {
        const auto equal = std::count_if(x.begin(), x.end(), [&](T v) { return key_of(v) == threshold; });
        for (const std::int64_t ties : std::set<std::int64_t>{0, 1, equal / 2, equal, equal + 1}) {
          Indices expected_indices;
          std::vector<T> expected_values;
          std::int64_t left = ties;
          for (std::size_t i = 0; i < x.size(); ++i) {
            const Key<T> key = key_of(x[i]);
            if (key < threshold || (key == threshold && left-- <= 0)) continue;
            expected_indices.push_back(static_cast<std::uint32_t>(i));
            expected_values.push_back(x[i]);
          }
          const auto expected = static_cast<std::int64_t>(expected_indices.size());
          Guarded<T> source(x, 1), values(expected + select_padding);
          Guarded<std::uint32_t> indices(expected + select_padding);
          INFO("n " << n << ", kind " << static_cast<int>(kind) << ", threshold " << threshold << ", ties " << ties);
          REQUIRE(TestType::select_ties(source.data(), n, threshold, ties, indices.data(), values.data()) == expected);
          REQUIRE(indices.first(expected) == expected_indices);
          REQUIRE(same(values.first(expected), expected_values));
          REQUIRE((values.intact() && indices.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("kth_key agrees with sorting", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 5);
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

TEMPLATE_TEST_CASE("histogram adds to its bins", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      Guarded<T> x(numbers<T>(kind, n, 6), 1);
      const Key<T> one = key_of(T(1)), tenth = key_of(T(0.1));
      for (const auto& [low, high] : {std::pair<Key<T>, Key<T>>{0, weir::key_infinity<T>}, {tenth, one}, {one, one}, {1, one}}) {
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

TEMPLATE_TEST_CASE("moments and exceedances add up in the order of their contract", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  // On a GPU the order is another one: the same but for rounding, or where there are infinities.
  const auto same_sum = [](double a, double b, double magnitudes) {
    if (!TestType::on_host) return std::abs(a - b) <= 1e-12 * magnitudes || !std::isfinite(magnitudes);
    return std::bit_cast<Key<double>>(a) == std::bit_cast<Key<double>>(b) || (a != a && b != b);
  };
  for (const std::int64_t n : sizes) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      for (const bool paired : {false, true}) {
        Guarded<T> x(numbers<T>(kind, n, 11), 1), y(numbers<T>(kind, n, 12), 3);
        std::vector<T> values = x.all();
        for (std::int64_t i = 0; i < n && paired; ++i) values[static_cast<std::size_t>(i)] += y.data()[i];
        for (const Key<T> threshold : thresholds(values)) {
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
          REQUIRE(exceedances.largest == largest);
          REQUIRE(same_sum(exceedances.sum_magnitudes, sums[2][0], magnitudes));
          if (threshold != 0) continue;
          const auto moments = TestType::moments(x.data(), paired ? y.data() : nullptr, n);
          REQUIRE(moments.count == n);
          REQUIRE(moments.largest == largest);
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
      std::vector<T> sum(y), product(y);
      const T factor = T(1) / T(3);
      std::int64_t non_finite = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum[i] += x[i];
        product[i] *= factor;
        non_finite += key_of(x[i]) >= weir::key_infinity<T>;
      }
      Guarded<T> source(x, 1), added(y, 2), scaled(y, 1);
      TestType::add(source.data(), added.data(), n);
      TestType::scale(scaled.data(), n, factor);
      REQUIRE(same_sums(added.all(), sum));
      REQUIRE(same_sums(scaled.all(), product));
      REQUIRE(TestType::count_non_finite(source.data(), n) == non_finite);
      REQUIRE(same(source.all(), x));
      REQUIRE((added.intact() && scaled.intact()));
    }
  }
}

TEMPLATE_TEST_CASE("fill_zero fills exactly its range, cached and streamed", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
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

TEMPLATE_TEST_CASE("merge_add unites sorted vectors", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::size_t a_count : {0, 1, 2, 3, 16, 65, 1000, 40000}) {
    for (const std::size_t b_count : {0, 1, 2, 17, 64, 1001, 40000}) {
      // Sparse, dense, and as dense as can be, where nearly all indices are in both.
      const auto largest = static_cast<std::uint32_t>(std::max({a_count, b_count, std::size_t{1}}));
      for (const std::uint32_t range : {1000 * largest, 3 * largest, largest}) {
        const Indices a = sorted_indices(a_count, range, 1), b = sorted_indices(b_count, range, 2);
        std::vector<T> a_values = numbers<T>(Kind::special, static_cast<std::int64_t>(a_count), 3), b_values(b_count);
        for (std::size_t i = 0; i < b_count; ++i) {
          const auto match = std::lower_bound(a.begin(), a.end(), b[i]);
          const bool cancels = match != a.end() && *match == b[i] && i % 2 == 0;
          b_values[i] = cancels ? -a_values[static_cast<std::size_t>(match - a.begin())] : i % 3 ? T(-0.0) : T(i);
        }
        Indices expected_indices;
        std::vector<T> expected_values;
        for (std::size_t i = 0, j = 0; i < a_count || j < b_count;) {
          if (j == b_count || (i < a_count && a[i] < b[j])) {
            expected_indices.push_back(a[i]);
            expected_values.push_back(a_values[i++]);
          } else if (i == a_count || b[j] < a[i]) {
            expected_indices.push_back(b[j]);
            expected_values.push_back(b_values[j++]);
          } else {
            expected_indices.push_back(a[i]);
            expected_values.push_back(a_values[i++] + b_values[j++]);
          }
        }
        const auto room = static_cast<std::int64_t>(a_count + b_count);
        Guarded<std::uint32_t> indices(room), guarded_a(a), guarded_b(b);
        Guarded<T> values(room);
        const std::int64_t written =
            TestType::merge_add(guarded_a.data(), a_values.data(), static_cast<std::int64_t>(a_count), guarded_b.data(),
                                b_values.data(), static_cast<std::int64_t>(b_count), indices.data(), values.data());
        INFO("a " << a_count << ", b " << b_count << ", range " << range);
        REQUIRE(indices.first(written) == expected_indices);
        REQUIRE(same_sums(values.first(written), expected_values));
        REQUIRE((indices.intact() && values.intact()));
      }
    }
  }
}

TEMPLATE_TEST_CASE("merge_add of lists that do not overlap", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const Indices low{1, 2, 3, 4}, high{0xfffffffd, 0xfffffffe, 0xffffffff};
  const std::vector<T> low_values{1, 2, 3, 4}, high_values{5, 6, 7};
  const Indices expected{1, 2, 3, 4, 0xfffffffd, 0xfffffffe, 0xffffffff};
  Guarded<std::uint32_t> indices(7);
  Guarded<T> values(7);
  REQUIRE(TestType::merge_add(low.data(), low_values.data(), 4, high.data(), high_values.data(), 3, indices.data(),
                              values.data()) == 7);
  REQUIRE(indices.all() == expected);
  REQUIRE(values.all() == std::vector<T>{1, 2, 3, 4, 5, 6, 7});
  REQUIRE(TestType::merge_add(high.data(), high_values.data(), 3, low.data(), low_values.data(), 4, indices.data(),
                              values.data()) == 7);
  REQUIRE(indices.all() == expected);
  REQUIRE(values.all() == std::vector<T>{1, 2, 3, 4, 5, 6, 7});
  REQUIRE((indices.intact() && values.intact()));
}

TEMPLATE_TEST_CASE("settle zeroes what was taken and puts back the rest; scatter writes", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::size_t count : {0, 1, 2, 31, 32, 33, 1000, 20000}) {
    for (const std::size_t taken_count : {0, 1, 33, 1000, 20000}) {
      const auto largest = static_cast<std::uint32_t>(std::max({count, taken_count, std::size_t{1}}));
      for (const std::uint32_t range : {100 * largest, 2 * largest, largest}) {
        const Indices indices = sorted_indices(count, range, 1), taken = sorted_indices(taken_count, range, 2);
        const auto values = numbers<T>(Kind::special, static_cast<std::int64_t>(count), 3);
        const auto before = numbers<T>(Kind::heavy_tailed, range, 4);
        std::vector<T> scattered(before), settled(before);
        for (std::size_t i = 0; i < count; ++i) {
          scattered[indices[i]] = values[i];
          settled[indices[i]] = std::binary_search(taken.begin(), taken.end(), indices[i]) ? T(0) : values[i];
        }
        Guarded<T> dense(before);
        INFO("count " << count << ", taken " << taken_count << ", range " << range);
        TestType::settle(dense.data(), indices.data(), values.data(), static_cast<std::int64_t>(count), taken.data(),
                         static_cast<std::int64_t>(taken_count));
        REQUIRE(same(dense.all(), settled));
        TestType::scatter(dense.data(), indices.data(), values.data(), static_cast<std::int64_t>(count));
        REQUIRE(same(dense.all(), scattered));
        REQUIRE(dense.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("scatter_add adds, sample picks", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::size_t count : {0, 1, 33, 5000}) {
    const auto n = static_cast<std::int64_t>(count);
    const Indices indices = sorted_indices(count, 3 * static_cast<std::uint32_t>(count) + 1, 1);
    const auto values = numbers<T>(Kind::heavy_tailed, n, 2), before = numbers<T>(Kind::heavy_tailed, 3 * n + 1, 3);
    std::vector<T> expected(before);
    for (std::size_t i = 0; i < count; ++i) expected[indices[i]] += values[i];
    Guarded<T> dense(before);
    TestType::scatter_add(dense.data(), indices.data(), values.data(), n);
    REQUIRE(same(dense.all(), expected));
    REQUIRE(dense.intact());
    if (count == 0) continue;
    const auto x = numbers<T>(Kind::special, 7 * n + 5, 4), y = numbers<T>(Kind::heavy_tailed, 7 * n + 5, 5);
    for (const T* const other : {static_cast<const T*>(nullptr), y.data()}) {
      Guarded<T> out{std::vector<T>(count, T(9))};
      std::vector<T> picked;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto p = static_cast<std::size_t>(i * 7 + i * 5 / n + 2);
        picked.push_back(other != nullptr ? x[p] + y[p] : x[p]);
      }
      TestType::sample(x.data(), other, n, 7, 5, 2, out.data());
      REQUIRE(same_sums(out.all(), picked));
      REQUIRE(out.intact());
    }
  }
}

TEMPLATE_TEST_CASE("select_band keeps what is in the band and gives back the rest", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const Kind kind : {Kind::heavy_tailed, Kind::special}) {
    for (const std::size_t count : {0, 1, 31, 33, 1000, 5000}) {
      const auto n = static_cast<std::int64_t>(count);
      const Indices indices = sorted_indices(count, 2 * static_cast<std::uint32_t>(count) + 1, 1);
      const auto values = numbers<T>(kind, n, 2), before = numbers<T>(Kind::heavy_tailed, 2 * n + 1, 3);
      const Key<T> upper = count == 0 ? 5 : reference::kth_key(values.data(), n, n / 8 + 1).key,
                   lower = count == 0 ? 3 : reference::kth_key(values.data(), n, n / 2 + 1).key;
      for (const weir::Band<T> band : {weir::Band<T>{upper, lower, 0, n},
                                       {upper, lower, 3, n / 8},
                                       {upper, upper, 0, 0},
                                       {upper, lower, n, 1},
                                       {0, 0, 0, 0}}) {
        for (const bool residual : {true, false}) {
          std::vector<T> kept_values, expected(before);
          Indices kept;
          std::int64_t number = 0;
          for (std::size_t i = 0; i < count; ++i) {
            const bool above = key_of(values[i]) >= band.upper, between = !above && key_of(values[i]) >= band.lower;
            if (above || (between && number >= band.start && number < band.start + band.slice)) {
              kept.push_back(indices[i]);
              kept_values.push_back(values[i]);
            } else if (key_of(values[i]) >= lower / 2) {
              expected[indices[i]] = values[i];
            }
            number += between;
          }
          Guarded<T> dense(before), out_values{std::vector<T>(count)};
          Guarded<std::uint32_t> out_indices{Indices(count, 0)};
          weir::Band<T> moving = band;
          REQUIRE(TestType::select_band(indices.data(), values.data(), n, moving, out_indices.data(), out_values.data(),
                                        residual ? dense.data() : nullptr, lower / 2) == static_cast<std::int64_t>(kept.size()));
          REQUIRE(moving.start == band.start - number);
          REQUIRE(std::equal(kept.begin(), kept.end(), out_indices.data()));
          REQUIRE(same(std::vector<T>(out_values.data(), out_values.data() + kept.size()), kept_values));
          REQUIRE(same(dense.all(), residual ? expected : before));
          REQUIRE((dense.intact() && out_values.intact() && out_indices.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("roll_back takes back what compensate_select has added", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : {1, 33, 5000}) {
    auto gradient = numbers<T>(Kind::heavy_tailed, n, 1);
    gradient[static_cast<std::size_t>(n / 2)] = std::numeric_limits<T>::infinity();
    const auto before = numbers<T>(Kind::heavy_tailed, n, 2);
    const Key<T> threshold = reference::kth_key(gradient.data(), n, n / 10 + 1).key, keep_old = threshold + 3;
    Indices indices(static_cast<std::size_t>(n + select_padding));
    std::vector<T> values(indices.size()), sums(before);
    const std::int64_t held =
        reference::compensate_select(gradient.data(), sums.data(), n, threshold, keep_old, indices.data(), values.data(), n);
    std::vector<T> expected(sums);
    for (std::int64_t i = 0, h = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool is_held = h < held && indices[static_cast<std::size_t>(h)] == i;
      const bool old = is_held && key_of(values[static_cast<std::size_t>(h)]) >= keep_old;
      if (!old && std::isfinite(gradient[at])) expected[at] -= gradient[at];
      if (old) REQUIRE(same(std::vector<T>{expected[at]}, std::vector<T>{before[at]}));
      h += is_held;
    }
    Guarded<T> residual(sums);
    TestType::roll_back(gradient.data(), residual.data(), n, indices.data(), values.data(), held, keep_old);
    REQUIRE(same(residual.all(), expected));
    REQUIRE(residual.intact());
  }
}

TEST_CASE("the instruction set has a name", "[kernels]") { REQUIRE(std::strlen(weir::kernels::host::instruction_set()) > 0); }
