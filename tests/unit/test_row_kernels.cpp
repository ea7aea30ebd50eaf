// test_row_kernels.cpp: runs the same tests of kernels on rows in every memory space, as in test_kernels.cpp.
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"
#include "support/kernel_data.hpp"
#include "support/kernel_sets.hpp"

namespace {

using weir::Key;
using weir::test::Guarded;
using weir::test::Kind;
using weir::test::kinds;
using weir::test::numbers;
using weir::test::same;
using weir::test::same_sums;
using Indices = std::vector<std::uint32_t>;

/// Widths near the vector lengths of all instruction sets, and near the number of columns summed at once.
constexpr std::array<std::int64_t, 18> widths{0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 65, 100, 127, 128, 129, 512, 513};

Indices random_rows(std::size_t count, std::uint32_t range, unsigned seed) {
  std::mt19937 random(seed);
  Indices rows(count);
  for (std::uint32_t& row : rows) row = random() % range;
  return rows;
}

/// Returns the places at which groups of these sizes begin, and the end.
Indices starts(const Indices& sizes) {
  Indices first{0};
  for (const std::uint32_t size : sizes) first.push_back(first.back() + size);
  return first;
}

/// Reserves address space. Pages become memory when they are written.
template <class T>
class AddressSpace {
 public:
  explicit AddressSpace(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) data_ = static_cast<T*>(p);
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  /// Returns the address, or nullptr if there is not enough address space.
  T* data() { return data_; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace

TEMPLATE_TEST_CASE("gather_rows copies rows and nothing between them", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  constexpr std::uint32_t table_rows = 50;
  for (const std::int64_t width : widths) {
    for (const std::int64_t count : {0, 1, 2, 31, 100}) {
      for (const std::int64_t x_gap : {0, 1, 16}) {
        for (const std::int64_t out_gap : {0, 3, 64}) {
          const std::int64_t x_stride = width + x_gap, out_stride = width + out_gap;
          const auto x = numbers<T>(Kind::special, table_rows * x_stride, 1);
          const Indices rows = random_rows(static_cast<std::size_t>(count), table_rows, 2);
          Guarded<T> source(x, 1), out(count * out_stride, 3);
          std::vector<T> expected = out.all();
          for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t c = 0; c < width; ++c) {
              expected[static_cast<std::size_t>(i * out_stride + c)] =
                  x[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)] * x_stride + c)];
            }
          }
          TestType::gather_rows(source.data(), x_stride, rows.data(), count, width, out.data(), out_stride);
          INFO("width " << width << ", count " << count << ", x_stride " << x_stride << ", out_stride " << out_stride);
          REQUIRE(same(out.all(), expected));
          REQUIRE(same(source.all(), x));
          REQUIRE((source.intact() && out.intact()));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("coalesce_rows adds the members of each group in their order", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  constexpr std::uint32_t x_rows = 150;
  const std::vector<Indices> layouts{{}, {1}, {2}, {1, 1, 1, 1, 1}, {40}, {1, 3, 1, 1, 70, 2, 33, 1, 12, 9}, Indices(60, 2)};
  for (const std::int64_t width : widths) {
    for (const Kind kind : kinds) {
      const auto x = numbers<T>(kind, x_rows * width, 3);
      for (const Indices& sizes : layouts) {
        const Indices first = starts(sizes), order = random_rows(first.back(), x_rows, 4);
        std::vector<T> expected;
        for (std::size_t g = 0; g < sizes.size(); ++g) {
          for (std::int64_t c = 0; c < width; ++c) {
            const auto value = [&](std::size_t i) { return x[static_cast<std::size_t>(order[i] * width + c)]; };
            T sum = value(first[g]);
            for (std::size_t i = first[g] + 1; i < first[g + 1]; ++i) sum += value(i);
            expected.push_back(sum);
          }
        }
        Guarded<T> source(x, 1), out(static_cast<std::int64_t>(expected.size()), 3);
        TestType::coalesce_rows(source.data(), width, order.data(), first.data(), static_cast<std::int64_t>(sizes.size()),
                                out.data());
        INFO("width " << width << ", kind " << static_cast<int>(kind) << ", groups " << sizes.size());
        REQUIRE(same_sums(out.all(), expected));
        REQUIRE(same(source.all(), x));
        REQUIRE((source.intact() && out.intact()));
      }
    }
  }
}

TEMPLATE_TEST_CASE("coalesce_rows copies a group of one bit for bit, and starts at its first member", "[kernels]",
                   WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  using Limits = std::numeric_limits<T>;
  const Key<T> sign = Key<T>{1} << weir::key_bits<T>;
  const std::vector<Key<T>> patterns{0,
                                     sign,
                                     1,
                                     sign | 1,
                                     std::bit_cast<Key<T>>(Limits::infinity()),
                                     std::bit_cast<Key<T>>(Limits::quiet_NaN()) | sign | 5,
                                     std::bit_cast<Key<T>>(Limits::infinity()) | 3,  // a signalling NaN
                                     std::bit_cast<Key<T>>(Limits::max())};
  for (const std::int64_t width : widths) {
    if (width == 0) continue;
    const auto columns = static_cast<std::size_t>(width);
    // Row r starts with pattern r; the last two rows are -0 throughout.
    std::vector<Key<T>> x((patterns.size() + 2) * columns, sign);
    for (std::size_t i = 0; i < patterns.size() * columns; ++i) x[i] = patterns[(i / columns + i % columns) % patterns.size()];
    Indices order(patterns.size() + 2), first(patterns.size() + 1);
    std::iota(order.begin(), order.end(), 0u);
    std::iota(first.begin(), first.end(), 0u);
    first.push_back(first.back() + 2);  // -0 and -0 make -0; only a sum that started from 0 would be 0
    std::vector<T> values(x.size()), out(x.size() - columns);
    std::memcpy(values.data(), x.data(), x.size() * sizeof(T));
    TestType::coalesce_rows(values.data(), width, order.data(), first.data(), static_cast<std::int64_t>(patterns.size()) + 1,
                            out.data());
    INFO("width " << width);
    REQUIRE(std::memcmp(out.data(), x.data(), out.size() * sizeof(T)) == 0);
  }
}

TEMPLATE_TEST_CASE("rows may begin beyond 2^32 elements", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  constexpr std::int64_t width = std::int64_t{1} << 16, far = std::int64_t{1} << 17;
  if (!TestType::on_host) {
    WARN("not in CUDA memory: these arrays would have to be copied there");
    return;
  }
  AddressSpace<T> x((far + 1) * width);
  if (x.data() == nullptr) {
    WARN("not enough address space: nothing tested");
    return;
  }
  const auto near_row = numbers<T>(Kind::heavy_tailed, width, 5), far_row = numbers<T>(Kind::heavy_tailed, width, 6);
  std::copy(near_row.begin(), near_row.end(), x.data());
  std::copy(far_row.begin(), far_row.end(), x.data() + far * width);
  const Indices rows{static_cast<std::uint32_t>(far), 0}, first{0, 2};
  std::vector<T> gathered(2 * near_row.size()), sum(near_row.size()), expected(far_row);
  TestType::gather_rows(x.data(), width, rows.data(), 2, width, gathered.data(), width);
  TestType::coalesce_rows(x.data(), width, rows.data(), first.data(), 1, sum.data());
  expected.insert(expected.end(), near_row.begin(), near_row.end());
  REQUIRE(same(gathered, expected));
  for (std::size_t c = 0; c < sum.size(); ++c) expected[c] = far_row[c] + near_row[c];
  expected.resize(sum.size());
  REQUIRE(same(sum, expected));
}
