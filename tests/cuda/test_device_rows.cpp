// test_device_rows.cpp: operations of embedding tables on rows in CUDA memory have the host's bits.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "codec/parts.hpp"
#include "embedding/cuda_row_kernels.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/kernel_data.hpp"

namespace {

using namespace weir;
using namespace weir::embedding;
using test::Kind;
using test::OnDevice;
using Rows = std::vector<std::uint32_t>;

constexpr std::int64_t widths[] = {1, 2, 3, 4, 7, 8, 33, 64, 260};

template <class V>
std::int64_t size_of(const std::vector<V>& list) {
  return static_cast<std::int64_t>(list.size());
}

Rows random_rows(std::int64_t count, std::uint32_t range, unsigned seed) {
  std::mt19937 random(seed);
  Rows rows(static_cast<std::size_t>(count));
  for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(random() % range);
  return rows;
}

Rows distinct_rows(std::int64_t count, std::uint32_t range) {
  Rows rows(range);
  std::iota(rows.begin(), rows.end(), 0u);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(7));
  rows.resize(static_cast<std::size_t>(count));
  return rows;
}

/// Values and the optimizer's state of a table, on the host or on the device.
struct Table {
  std::vector<float> values, first, second;

  Table(std::int64_t elements, Optimizer optimizer)
      : values(test::numbers<float>(Kind::heavy_tailed, elements, 5)),
        first(state_arrays(optimizer) > 0 ? values.size() : 0, 0.5F),
        second(state_arrays(optimizer) > 1 ? values.size() : 0, 0.25F) {}

  [[nodiscard]] RowState state() {
    return {values.data(), first.empty() ? nullptr : first.data(), second.empty() ? nullptr : second.data()};
  }
};

/// Groups of `x_rows` rows of x, each at its own place in a table of `table_rows`; sizes from 1 to a few.
struct Groups {
  Rows keys, first{0}, order;

  Groups(std::int64_t count, std::uint32_t x_rows, std::uint32_t table_rows) : keys(distinct_rows(count, table_rows)) {
    std::mt19937 random(7);
    for (std::int64_t group = 0; group < count; ++group)
      first.push_back(first.back() + 1 + static_cast<std::uint32_t>(random() % (group % 7 == 0 ? 12 : 3)));
    order = random_rows(first.back(), x_rows, 8);
  }
  [[nodiscard]] std::int64_t count() const { return size_of(keys); }
};

}  // namespace

TEST_CASE("pack_rows rounds rows as the host does", "[kernels]") {
  constexpr std::uint32_t table_rows = 50;
  for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
    for (const std::int64_t width : widths) {
      for (const std::int64_t count : {0, 1, 31, 100}) {
        for (const std::int64_t gap : {0, 1, 8}) {
          const std::int64_t stride = width + gap, row_bytes = 2 * width;
          const auto x = test::numbers<float>(Kind::special, table_rows * stride, 1);
          const Rows rows = random_rows(count, table_rows, 2);
          std::vector<std::byte> expected(static_cast<std::size_t>(count * row_bytes)), out(expected);
          for (std::int64_t i = 0; i < count; ++i)
            wire::pack_values(values, x.data() + rows[static_cast<std::size_t>(i)] * stride, width,
                              expected.data() + i * row_bytes);
          OnDevice<const float> source(x.data(), size_of(x));
          OnDevice<const std::uint32_t> wanted(rows.data(), count);
          OnDevice<std::byte> packed(out.data(), size_of(out));
          embedding::cuda::pack_rows(test::TestQueue(0), values, source.get(), stride, wanted.get(), count, width, packed.get());
          source.fetch(), wanted.fetch(), packed.fetch();
          INFO("values " << static_cast<int>(values) << ", width " << width << ", count " << count << ", stride " << stride);
          REQUIRE(out == expected);
        }
      }
    }
  }
}

TEST_CASE("unpack_values widens as the host does, from any even address", "[kernels]") {
  for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
    for (const std::int64_t count : {0, 1, 3, 4, 7, 1023, 5000}) {
      for (const std::int64_t offset : {0, 2, 8}) {
        const auto x = test::numbers<float>(Kind::special, count, 3);
        std::vector<std::byte> message(static_cast<std::size_t>(offset + 2 * count));
        wire::pack_values(values, x.data(), count, message.data() + offset);
        std::vector<float> expected(x.size()), out(x.size());
        wire::unpack_values(values, message.data() + offset, count, expected.data());
        OnDevice<const std::byte> in(message.data(), size_of(message));
        OnDevice<float> wide(out.data(), count);
        embedding::cuda::unpack_values(test::TestQueue(0), values, in.get() + offset, count, wide.get());
        in.fetch(), wide.fetch();
        INFO("values " << static_cast<int>(values) << ", count " << count << ", offset " << offset);
        REQUIRE(test::same(out, expected));
      }
    }
  }
}

TEST_CASE("scatter_rows writes rows to their places and leaves other rows alone", "[kernels]") {
  constexpr std::uint32_t table_rows = 150;
  for (const std::int64_t width : widths) {
    for (const std::int64_t count : {1, 2, 45, 150}) {
      const auto x = test::numbers<float>(Kind::special, count * width, 4);
      const Rows rows = distinct_rows(count, table_rows);
      auto expected = test::numbers<float>(Kind::heavy_tailed, table_rows * width, 5), table = expected;
      for (std::int64_t i = 0; i < count; ++i)
        std::copy_n(x.data() + i * width, width, expected.data() + rows[static_cast<std::size_t>(i)] * width);
      OnDevice<const float> source(x.data(), size_of(x));
      OnDevice<const std::uint32_t> places(rows.data(), count);
      OnDevice<float> to(table.data(), size_of(table));
      embedding::cuda::scatter_rows(test::TestQueue(0), source.get(), places.get(), count, width, to.get());
      source.fetch(), places.fetch(), to.fetch();
      INFO("width " << width << ", count " << count);
      REQUIRE(test::same(table, expected));
    }
  }
}

TEST_CASE("step_rows sums up members and steps rows as the host does, and leaves other rows alone", "[kernels]") {
  constexpr std::uint32_t x_rows = 60, table_rows = 150;
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam}) {
    for (const std::int64_t width : widths) {
      for (const Kind kind : {Kind::heavy_tailed, Kind::special, Kind::zeros}) {
        for (const std::int64_t count : {1, 2, 45, 150}) {
          EmbeddingConfig config;
          config.optimizer = optimizer;
          const RowOptimizer step(config, 0.3, 3, 2);
          const auto x = test::numbers<float>(kind, x_rows * width, 9);
          const Groups groups(count, x_rows, table_rows);
          Table expected(table_rows * width, optimizer), table = expected;
          std::vector<float> sums(static_cast<std::size_t>(count * width));
          kernels::reference::coalesce_rows(x.data(), width, groups.order.data(), groups.first.data(), count, sums.data());
          step.apply(expected.state(), groups.keys.data(), count, width, sums.data());

          OnDevice<const float> source(x.data(), size_of(x));
          OnDevice<const std::uint32_t> keys(groups.keys.data(), count), first(groups.first.data(), count + 1),
              order(groups.order.data(), size_of(groups.order));
          const RowState state = table.state();
          OnDevice<float> values(state.values, size_of(table.values)), kept(state.first, size_of(table.first)),
              kept_too(state.second, size_of(table.second));
          embedding::cuda::step_rows(test::TestQueue(0), step, {values.get(), kept.get(), kept_too.get()}, width, source.get(),
                                     {keys.get(), first.get(), order.get(), count});
          source.fetch(), keys.fetch(), first.fetch(), order.fetch(), values.fetch(), kept.fetch(), kept_too.fetch();
          INFO("optimizer " << static_cast<int>(optimizer) << ", width " << width << ", kind " << static_cast<int>(kind)
                            << ", groups " << count);
          REQUIRE(test::same_sums(table.values, expected.values));
          REQUIRE(test::same_sums(table.first, expected.first));
          REQUIRE(test::same_sums(table.second, expected.second));
        }
      }
    }
  }
}

TEST_CASE("initial values are the host's", "[kernels]") {
  const Topology topology(synthetic_machine("rank:3"), 1);
  for (const TableSplit split : {TableSplit::columns, TableSplit::rows, TableSplit::hashed_rows, TableSplit::none}) {
    for (const std::int64_t width : {1, 2, 7, 33}) {
      EmbeddingConfig config;
      config.seed = 77;
      const Partition partition(split, 101, width, topology);
      for (int rank = 0; rank < 3; ++rank) {
        const InitialValues initial(config, partition, partition.part(rank));
        const Part& part = initial.part();
        std::vector<float> expected, out(static_cast<std::size_t>(part.elements()));
        for (std::int64_t row = 0; row < part.rows; ++row) {
          for (std::int64_t column = 0; column < part.columns; ++column)
            expected.push_back(initial.at(initial.begin_of(row), column));
        }
        OnDevice<float> filled(out.data(), part.elements());
        embedding::cuda::fill(test::TestQueue(0), initial, filled.get());
        filled.fetch();
        INFO("split " << static_cast<int>(split) << ", width " << width << ", rank " << rank);
        REQUIRE(test::same(out, expected));
      }
    }
  }
}
