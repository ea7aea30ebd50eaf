// The pure parts of embedding tables: which rank holds what, grouping of equal keys, and the optimizers against their formulas.
#include <cmath>
#include <map>
#include <random>

#include "embedding/optimizer.hpp"
#include "embedding/partition.hpp"
#include "embedding/row_groups.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using namespace embedding;

constexpr std::array all_splits = {TableSplit::columns, TableSplit::rows, TableSplit::hashed_rows, TableSplit::node_rows,
                                   TableSplit::none};
constexpr std::int64_t most_rows = (std::int64_t{1} << 32) - 1;

bool overlaps(std::int64_t first_a, std::int64_t count_a, std::int64_t first_b, std::int64_t count_b) {
  return first_a < first_b + count_b && first_b < first_a + count_a;
}

bool inside(const Part& part, std::int64_t rows, std::int64_t width) {
  return part.first_row >= 0 && part.rows >= 0 && part.first_row + part.rows <= rows && part.first_column >= 0 &&
         part.columns >= 0 && part.first_column + part.columns <= width;
}

/// Returns whether no two parts overlap, all lie in the table, and their elements add up to it.
bool covers_once(const Partition& partition, int ranks) {
  std::int64_t elements = 0;
  for (int a = 0; a < ranks; ++a) {
    const Part& part = partition.part(a);
    if (!inside(part, partition.rows(), partition.width())) return false;
    elements += part.elements();
    for (int b = 0; b < a; ++b) {
      const Part& other = partition.part(b);
      if (part.elements() > 0 && other.elements() > 0 && overlaps(part.first_row, part.rows, other.first_row, other.rows) &&
          overlaps(part.first_column, part.columns, other.first_column, other.columns))
        return false;
    }
  }
  return elements == partition.rows() * partition.width();
}

bool ascends(const Partition& partition, int ranks) {
  for (int rank = 1; rank < ranks; ++rank) {
    if (partition.part(rank).first_row < partition.part(rank - 1).first_row ||
        partition.part(rank).first_column < partition.part(rank - 1).first_column)
      return false;
  }
  return true;
}

/// Returns the places of each key, in the obvious way.
std::map<std::uint32_t, std::vector<std::uint32_t>> places_of(const std::vector<std::uint32_t>& keys) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> places;
  for (std::size_t i = 0; i < keys.size(); ++i) places[keys[i]].push_back(static_cast<std::uint32_t>(i));
  return places;
}

void check_groups(const RowGroups& groups, const std::vector<std::uint32_t>& keys) {
  const auto right = places_of(keys);
  REQUIRE(groups.count() == static_cast<std::int64_t>(right.size()));
  std::vector<std::uint32_t> group_of(keys.size());
  groups.invert(group_of.data());
  std::int64_t group = 0;
  bool same = true;
  for (const auto& [key, places] : right) {
    const std::uint32_t first = groups.first()[group], end = groups.first()[group + 1];
    same = same && groups.keys()[group] == key &&
           std::equal(places.begin(), places.end(), groups.order() + first, groups.order() + end);
    for (const std::uint32_t place : places) same = same && group_of[place] == static_cast<std::uint32_t>(group);
    ++group;
  }
  REQUIRE(same);
}

/// One element under one optimizer, in double.
struct Element {
  double value, first = 0, second = 0;

  void step(const EmbeddingConfig& c, double rate, double g, int t) {
    if (c.optimizer == Optimizer::sgd) {
      value -= rate * g;
    } else if (c.optimizer == Optimizer::momentum) {
      first = c.beta1 * first + g;
      value -= rate * first;
    } else if (c.optimizer == Optimizer::adagrad) {
      first += g * g;
      value -= rate * g / (std::sqrt(first) + c.epsilon);
    } else {
      first = c.beta1 * first + (1 - c.beta1) * g;
      second = c.beta2 * second + (1 - c.beta2) * g * g;
      const double m = first / (1 - std::pow(c.beta1, t)), v = second / (1 - std::pow(c.beta2, t));
      value -= rate * m / (std::sqrt(v) + c.epsilon);
    }
  }
};

}  // namespace

TEST_CASE("positions are a permutation of rows") {
  const Topology topology(synthetic_machine("rank:3"), 0);
  for (const TableSplit split : all_splits) {
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 64, 100, 1000, 4099}) {
      const Partition partition(split, rows, 1, topology);
      std::vector<int> seen(static_cast<std::size_t>(rows));
      bool inverse = true;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::uint32_t position = partition.position(static_cast<std::uint64_t>(row));
        REQUIRE(position < rows);
        ++seen[position];
        inverse = inverse && partition.row(position) == static_cast<std::uint64_t>(row);
        if (split != TableSplit::hashed_rows) inverse = inverse && position == row;
      }
      INFO("split " << static_cast<int>(split) << " rows " << rows);
      CHECK(inverse);
      CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
    for (const std::int64_t rows : {most_rows, most_rows - 1, std::int64_t{1} << 31, std::int64_t{4000000007}}) {
      const Partition partition(split, rows, 1, topology);
      std::mt19937_64 random(5);
      bool inverse = true;
      for (int i = 0; i < 10000; ++i) {
        const std::uint64_t row = i < 10 ? static_cast<std::uint64_t>(rows - 1 - i) : random() % static_cast<std::uint64_t>(rows);
        const std::uint64_t position = partition.position(row);
        inverse = inverse && position < static_cast<std::uint64_t>(rows) && partition.row(position) == row;
      }
      CHECK(inverse);
    }
  }
}

TEST_CASE("hashing spreads the frequent, low rows over all ranks") {
  const Topology topology(synthetic_machine("rank:8"), 0);
  const Partition partition(TableSplit::hashed_rows, 32000, 1, topology);
  std::array<int, 8> low_rows{};
  for (std::uint64_t row = 0; row < 800; ++row) ++low_rows[partition.position(row) / 4000];
  for (const int count : low_rows) CHECK((count >= 90 && count <= 110));
}

TEST_CASE("parts cover a table exactly once, or every rank has it all") {
  for (const std::string machine : {"rank:1", "rank:3", "nodes:3,1,2", "node:4 rank:2", "rank:33"}) {
    const std::vector<Location> locations = synthetic_machine(machine);
    const auto ranks = static_cast<int>(locations.size());
    const Topology topology(locations, 0);
    for (const TableSplit split : all_splits) {
      for (const std::int64_t rows :
           {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, std::int64_t{32}, std::int64_t{1000}, most_rows}) {
        for (const std::int64_t width : {1, 2, 7, 33, 100}) {
          const Partition partition(split, rows, width, topology);
          INFO(machine << " split " << static_cast<int>(split) << " rows " << rows << " width " << width);
          CHECK(ascends(partition, ranks));
          if (split == TableSplit::none) {
            for (int rank = 0; rank < ranks; ++rank) CHECK(partition.part(rank).elements() == rows * width);
          } else {
            CHECK(covers_once(partition, ranks));
          }
        }
      }
    }
  }
}

TEST_CASE("only the first rank of each node is a server") {
  const Topology topology(synthetic_machine("nodes:3,1,2"), 0);
  const Partition partition(TableSplit::node_rows, 31, 4, topology);
  for (const int rank : {1, 2, 5}) CHECK(partition.part(rank).elements() == 0);
  for (const int rank : {0, 3, 4}) CHECK(partition.part(rank).rows >= 10);
}

TEST_CASE("exchanges are found by name") {
  for (const TableExchange& exchange : exchange_registry()) CHECK(&find_exchange(exchange.name) == &exchange);
  CHECK_THROWS_AS(find_exchange("Columns"), Error);
  CHECK(exchanges().size() == exchange_registry().size());
}

TEST_CASE("equal keys are brought together as a map does") {
  for (const std::uint64_t range : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{2047}, std::uint64_t{2048},
                                    std::uint64_t{2049}, std::uint64_t{100000}, std::uint64_t{1} << 22,
                                    (std::uint64_t{1} << 22) + 1, static_cast<std::uint64_t>(most_rows), std::uint64_t{1} << 32}) {
    constexpr std::int64_t capacity = 5000;
    RowGroups groups(capacity, range);
    std::mt19937_64 random(range);
    for (const std::size_t count : {5000, 0, 1, 2, 100, 4999, 0}) {
      std::vector<std::uint32_t> keys(count);
      for (std::uint32_t& key : keys) {
        const std::uint64_t x = random() % range;
        key = static_cast<std::uint32_t>(random() % 3 == 0 ? x : x % std::min<std::uint64_t>(range, 40));
      }
      if (count > 1) keys[0] = static_cast<std::uint32_t>(range - 1);
      INFO("range " << range << " keys " << count);
      groups.build(keys);
      check_groups(groups, keys);
    }
  }
  RowGroups nothing(0, 0);
  nothing.build({});
  check_groups(nothing, {});
}

TEST_CASE("optimizers follow their formulas, and leave other rows alone") {
  constexpr std::int64_t rows = 5, width = 3;
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam}) {
    for (const double divisor : {1.0, 4.0}) {
      EmbeddingConfig config;
      config.optimizer = optimizer;
      std::mt19937_64 random(3);
      std::vector<float> values(rows * width), first(rows * width), second(rows * width);
      std::vector<Element> right;
      for (float& x : values) {
        x = static_cast<float>(random() % 1000) / 1000 - 0.5F;
        right.push_back({x});
      }
      for (int t = 1; t <= 10; ++t) {
        const double rate = t < 5 ? 0.1 : 0.03;
        const std::vector<std::uint32_t> stepped =
            t % 2 == 0 ? std::vector<std::uint32_t>{4, 1} : std::vector<std::uint32_t>{0, 1, 3};
        std::vector<float> sums(stepped.size() * width);
        for (float& x : sums) x = static_cast<float>(random() % 2000) / 1000 - 1;
        const RowOptimizer step(config, rate, divisor, t);
        const int arrays = state_arrays(optimizer);
        step.apply({values.data(), arrays > 0 ? first.data() : nullptr, arrays > 1 ? second.data() : nullptr}, stepped.data(),
                   static_cast<std::int64_t>(stepped.size()), width, sums.data());
        for (std::size_t i = 0; i < sums.size(); ++i)
          right[stepped[i / width] * width + i % width].step(config, rate, sums[i] / divisor, t);
      }
      INFO("optimizer " << static_cast<int>(optimizer) << " divisor " << divisor);
      for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - right[i].value) < 2e-5);
      for (std::size_t c = 0; c < width; ++c) CHECK(static_cast<double>(values[2 * width + c]) == right[2 * width + c].value);
    }
  }
  CHECK(state_arrays(Optimizer::sgd) == 0);
  CHECK(state_arrays(Optimizer::momentum) == 1);
  CHECK(state_arrays(Optimizer::adagrad) == 1);
  CHECK(state_arrays(Optimizer::adam) == 2);
}

}  // namespace weir::test
