// test_entries.cpp: what is done in CUDA memory with sorted entries between merging and encoding them, against plain loops and the
// host's functions.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "codec/device.hpp"
#include "collectives/regions.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/kernel_data.hpp"

namespace {

using namespace weir;
using test::Delivered;
using test::OnDevice;
using test::TestQueue;
using Indices = std::vector<std::uint32_t>;

Indices sorted_indices(std::int64_t count, std::uint32_t range, std::mt19937& random) {
  std::set<std::uint32_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < count) chosen.insert(static_cast<std::uint32_t>(random()) % range);
  return {chosen.begin(), chosen.end()};
}

constexpr std::int64_t sizes[] = {0, 1, 2, 255, 256, 257, 5001};

}  // namespace

TEST_CASE("entries are counted by region, and cut into equal parts", "[kernels]") {
  std::mt19937 random(3);
  for (const std::int64_t count : sizes) {
    const Indices indices = sorted_indices(count, 100000, random);
    for (const int regions : {1, 2, 7, 300}) {
      Boundaries boundaries;
      for (int i = 0; i < regions - 1; ++i) boundaries.push_back(random() % 100001);
      boundaries.push_back(0);
      boundaries.push_back(100000);
      std::sort(boundaries.begin(), boundaries.end());
      std::vector<std::uint64_t> expected(static_cast<std::size_t>(regions)), counts(expected);
      count_regions(indices, boundaries, expected.data());
      OnDevice<const std::uint32_t> i(indices.data(), count);
      OnDevice<const std::uint64_t> b(boundaries.data(), regions + 1);
      OnDevice<std::uint64_t> c(counts.data(), regions);
      kernels::cuda::count_regions(TestQueue(0), i.get(), count, b.get(), regions, c.get());
      i.fetch(), b.fetch(), c.fetch();
      REQUIRE(counts == expected);

      std::vector<std::uint64_t> cuts(static_cast<std::size_t>(regions - 1)), expected_cuts(cuts);
      if (count == 0) continue;
      own_cuts(indices, 100000, regions, expected_cuts.data());
      OnDevice<std::uint64_t> q(cuts.data(), regions - 1);
      kernels::cuda::quantiles(TestQueue(0), i.get(), count, regions, q.get());
      i.fetch(), q.fetch();
      REQUIRE(cuts == expected_cuts);
    }
  }
}

TEST_CASE("indices are shifted", "[kernels]") {
  std::mt19937 random(4);
  for (const std::int64_t count : sizes) {
    const Indices indices = sorted_indices(count, ~0u, random);
    for (const std::uint32_t offset : {0u, 5u, 0u - 5u}) {
      Indices expected(indices), shifted(indices.size());
      for (std::uint32_t& index : expected) index += offset;
      OnDevice<const std::uint32_t> in(indices.data(), count);
      OnDevice<std::uint32_t> out(shifted.data(), count);
      kernels::cuda::shift_indices(TestQueue(0), in.get(), count, offset, out.get());
      in.fetch(), out.fetch();
      REQUIRE(shifted == expected);
    }
  }
}

TEMPLATE_TEST_CASE("values are counted at a cut and divided", "[kernels]", float, double) {
  using T = TestType;
  for (const test::Kind kind : test::kinds) {
    for (const std::int64_t count : sizes) {
      auto values = test::numbers<T>(kind, count, 11);
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
        const Key<T> key = count == 0 ? 1 : key_of(values[static_cast<std::size_t>(at)]);
        CutCounts expected;
        for (const T value : values) expected.above += key_of(value) > key, expected.equal += key_of(value) == key;
        OnDevice<const T> x(values.data(), count);
        Delivered<CutCounts> found;
        kernels::cuda::count_cut(TestQueue(0), x.get(), test::DeviceCount(count), key, found.get());
        x.fetch();
        const CutCounts counts = found.fetch();
        REQUIRE(counts.above == expected.above);
        REQUIRE(counts.equal == expected.equal);
      }
      std::vector<T> divided(values), expected(values);
      for (T& value : expected) value /= T{7};
      OnDevice<T> x(divided.data(), count);
      kernels::cuda::divide(TestQueue(0), x.get(), test::DeviceCount(count), T{7});
      x.fetch();
      REQUIRE(test::same_sums(divided, expected));
    }
  }
}

TEST_CASE("values are rounded as they travel", "[kernels]") {
  std::mt19937 random(5);
  for (const WireValues wire_values : {WireValues::bfloat16, WireValues::float16}) {
    for (const test::Kind kind : test::kinds) {
      for (const std::int64_t count : sizes) {
        const auto values = test::numbers<float>(kind, count, 12);
        std::vector<float> expected(values.size()), rounded(values.size()), loss(values), expected_loss(values);
        wire::round_values(wire_values, values.data(), expected.data(), count);
        wire::subtract_rounded(wire_values, expected_loss.data(), count);
        const Indices indices = sorted_indices(count, 20000, random), taken = sorted_indices(count / 2, 20000, random);
        std::vector<float> dense(20000, 0.5f), expected_dense(dense);
        for (std::size_t i = 0; i < indices.size(); ++i) {
          if (std::binary_search(taken.begin(), taken.end(), indices[i])) expected_dense[indices[i]] += expected_loss[i];
        }
        OnDevice<const float> in(values.data(), count);
        OnDevice<float> out(rounded.data(), count), l(loss.data(), count), d(dense.data(), 20000);
        OnDevice<const std::uint32_t> i(indices.data(), count), t(taken.data(), count / 2);
        wire::cuda::round_values(TestQueue(0), wire_values, in.get(), out.get(), count);
        wire::cuda::subtract_rounded(TestQueue(0), wire_values, l.get(), count);
        wire::cuda::return_rounded(TestQueue(0), wire_values, d.get(), i.get(), in.get(), count, t.get(), count / 2);
        in.fetch(), out.fetch(), l.fetch(), d.fetch(), i.fetch(), t.fetch();
        REQUIRE(test::same_sums(rounded, expected));
        REQUIRE(test::same_sums(loss, expected_loss));
        REQUIRE(test::same_sums(dense, expected_dense));
      }
    }
  }
}
