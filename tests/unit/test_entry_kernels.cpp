// test_entry_kernels.cpp: runs the same tests of kernels on sorted sparse vectors and on samples in every memory space, as in
// test_kernels.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"
#include "support/kernel_data.hpp"
#include "support/kernel_sets.hpp"
#include "support/thinning.hpp"

namespace {

using weir::Key;
using weir::key_of;
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

Indices sorted_indices(std::size_t count, std::uint32_t range, unsigned seed) {
  std::mt19937 random(seed);
  std::set<std::uint32_t> chosen;  // Floyd's sampling needs one draw per index, at any density
  for (auto last = range - static_cast<std::uint32_t>(count); last < range; ++last) {
    if (!chosen.insert(random() % (last + 1)).second) chosen.insert(last);
  }
  return Indices(chosen.begin(), chosen.end());
}

}  // namespace

TEMPLATE_TEST_CASE("merge_add unites sorted vectors", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::size_t a_count : {0, 1, 2, 3, 16, 65, 1000, 40000}) {
    for (const std::size_t b_count : {0, 1, 2, 17, 64, 1001, 40000}) {
      // Sparse, dense, and of maximal density, at which nearly all indices are in both.
      const auto largest = static_cast<std::uint32_t>(std::max({a_count, b_count, std::size_t{1}}));
      for (const std::uint32_t range : {1000 * largest, 3 * largest, largest}) {
        if (left_out()) continue;
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

TEMPLATE_TEST_CASE("settle zeroes what was taken and puts back the rest; scatter writes; clear_taken zeroes", "[kernels]",
                   WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::size_t count : {0, 1, 2, 31, 32, 33, 1000, 20000}) {
    for (const std::size_t taken_count : {0, 1, 33, 1000, 20000}) {
      const auto largest = static_cast<std::uint32_t>(std::max({count, taken_count, std::size_t{1}}));
      for (const std::uint32_t range : {100 * largest, 2 * largest, largest}) {
        if (left_out()) continue;
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
        for (const std::uint32_t index : indices) {
          if (std::binary_search(taken.begin(), taken.end(), index)) scattered[index] = 0;
        }
        TestType::clear_taken(dense.data(), indices.data(), static_cast<std::int64_t>(count), taken.data(),
                              static_cast<std::int64_t>(taken_count));
        REQUIRE(same(dense.all(), scattered));
        REQUIRE(dense.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("densify writes entries among zeros, cached and streamed", "[kernels]", WEIR_HOST_KERNELS) {
  using T = typename TestType::T;
  const SmallCaches small;
  for (const std::int64_t n : {0, 1, 2, 15, 33, 1000, 262144, 262145, 600001}) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, n / 100, n / 2, n}) {
      if (count > n || left_out()) continue;
      const Indices places =
          sorted_indices(static_cast<std::size_t>(count), static_cast<std::uint32_t>(std::max(n, std::int64_t{1})), 1);
      const auto values = numbers<T>(Kind::special, count, 2);
      for (const std::int64_t begin : {0, 3}) {
        Indices indices = places;
        for (std::uint32_t& index : indices) index += static_cast<std::uint32_t>(begin);
        std::vector<T> before = numbers<T>(Kind::heavy_tailed, n + begin + 5, 3), expected = before;
        std::fill_n(expected.begin() + begin, n, T{0});
        for (std::size_t i = 0; i < indices.size(); ++i) expected[indices[i]] = values[i];
        Guarded<T> dense(before);
        INFO("elements " << n << " from " << begin << " on, entries " << count);
        TestType::densify(dense.data(), begin, begin + n, indices.data(), values.data(), count);
        REQUIRE(same(dense.all(), expected));
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
          if (!TestType::on_host) continue;
          Guarded<T> values_in_place(values), again(before);
          Guarded<std::uint32_t> indices_in_place(indices);
          moving = band;
          REQUIRE(TestType::select_band(indices_in_place.data(), values_in_place.data(), n, moving, indices_in_place.data(),
                                        values_in_place.data(), residual ? again.data() : nullptr,
                                        lower / 2) == static_cast<std::int64_t>(kept.size()));
          REQUIRE(indices_in_place.first(static_cast<std::int64_t>(kept.size())) == kept);
          REQUIRE(same(values_in_place.first(static_cast<std::int64_t>(kept.size())), kept_values));
          REQUIRE(same(again.all(), dense.all()));
          REQUIRE((again.intact() && values_in_place.intact() && indices_in_place.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("select_band takes the largest of all elements, ties to the lowest index", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : {0, 1, 2, 63, 64, 65, 1000, 4097, 20003}) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      const auto x = numbers<T>(kind, n, 4);
      for (const Key<T> any : keys_among(x)) {
        const Key<T> key = std::min(any, std::numeric_limits<Key<T>>::max() / 2);
        const auto greater = std::count_if(x.begin(), x.end(), [&](T v) { return key_of(v) > key; });
        const auto equal = std::count_if(x.begin(), x.end(), [&](T v) { return key_of(v) == key; });
        for (const std::int64_t ties : std::set<std::int64_t>{0, 1, equal / 2, equal, equal + 1}) {
          Indices expected_indices;
          std::vector<T> expected_values;
          std::int64_t left = ties;
          for (std::size_t i = 0; i < x.size(); ++i) {
            if (key_of(x[i]) < key || (key_of(x[i]) == key && left-- <= 0)) continue;
            expected_indices.push_back(static_cast<std::uint32_t>(i));
            expected_values.push_back(x[i]);
          }
          const auto expected = static_cast<std::int64_t>(expected_indices.size());
          const std::int64_t room = ties % 2 == 0 ? n : expected + select_padding;
          Guarded<T> source(x, 1), values(room);
          Guarded<std::uint32_t> indices(room);
          weir::Band<T> band = weir::band_of_largest<T>({key, greater, equal}, greater + ties);
          INFO("n " << n << ", kind " << static_cast<int>(kind) << ", key " << key << ", ties " << ties);
          REQUIRE(TestType::select_band(nullptr, source.data(), n, band, indices.data(), values.data(), nullptr, 0) == expected);
          REQUIRE(indices.first(expected) == expected_indices);
          REQUIRE(same(values.first(expected), expected_values));
          REQUIRE((values.intact() && indices.intact()));
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

TEMPLATE_TEST_CASE("count_cut counts what is above a key and on it", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : {0, 1, 2, 255, 256, 257, 5001}) {
    for (const Kind kind : kinds) {
      if (left_out()) continue;
      Guarded<T> x(numbers<T>(kind, n, 11), 1);
      for (const Key<T> key : keys_among(x.all())) {
        std::int64_t above = 0, equal = 0;
        for (const T value : x.all()) above += key_of(value) > key, equal += key_of(value) == key;
        const weir::CutCounts counts = TestType::count_cut(x.data(), n, key);
        REQUIRE(counts.above == above);
        REQUIRE(counts.equal == equal);
      }
    }
  }
}

TEMPLATE_TEST_CASE("indices are counted by region, cut into equal parts and shifted", "[kernels]", WEIR_ALL_INDEX_KERNELS) {
  std::mt19937 random(3);
  for (const std::size_t count : {0, 1, 2, 255, 256, 257, 5001}) {
    const auto n = static_cast<std::int64_t>(count);
    const Indices indices = sorted_indices(count, 100000, 1);
    Guarded<std::uint32_t> source(indices);
    for (const int regions : {1, 2, 7, 300}) {
      const auto size = static_cast<std::size_t>(regions);
      // Some regions are empty, and some indices are in no region.
      std::vector<std::uint64_t> boundaries(size + 1);
      for (std::uint64_t& boundary : boundaries) boundary = 10000 + random() % 80000;
      std::sort(boundaries.begin(), boundaries.end());
      if (regions == 7) boundaries[3] = boundaries[4];
      std::vector<std::uint64_t> counted(size), cuts;
      for (const std::uint32_t index : indices) {
        for (std::size_t j = 0; j < size; ++j) counted[j] += index >= boundaries[j] && index < boundaries[j + 1];
      }
      Guarded<std::uint64_t> counts(regions), parts(regions - 1);
      TestType::count_regions(source.data(), n, boundaries.data(), regions, counts.data());
      REQUIRE(counts.all() == counted);
      REQUIRE(counts.intact());
      if (count == 0) continue;
      for (std::size_t j = 1; j < size; ++j) cuts.push_back(indices[count * j / size]);
      TestType::quantiles(source.data(), n, regions, parts.data());
      REQUIRE(parts.all() == cuts);
      REQUIRE(parts.intact());
    }
    for (const std::uint32_t offset : {0u, 5u, 0u - 5u, 0u - 50000u}) {
      Indices expected(indices);
      for (std::uint32_t& index : expected) index += offset;
      Guarded<std::uint32_t> shifted(n, 2), in_place(indices, 3);
      TestType::shift_indices(source.data(), n, offset, shifted.data());
      TestType::shift_indices(in_place.data(), n, offset, in_place.data());
      REQUIRE(shifted.all() == expected);
      REQUIRE(in_place.all() == expected);
      REQUIRE((shifted.intact() && in_place.intact()));
    }
    REQUIRE(source.all() == indices);
  }
}
