// Embedding tables against the oracle, bit for bit: every exchange, optimizer and wire type, any number of ranks, with right, wrong
// and no prefetches.
#include <algorithm>
#include <bit>
#include <mutex>
#include <random>
#include <weir/embedding.hpp>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/table_training.hpp"
#include "support/thinning.hpp"

using namespace weir;
using namespace weir::test;

namespace {

struct Case {
  EmbeddingConfig config;
  int ranks = 1;
  Prefetch prefetch = Prefetch::right;
  RankOptions options{};
  int steps = 5;

  [[nodiscard]] std::string text() const { return text_of(config, ranks, prefetch, options.machine); }
};

/// The batches of all steps, and one more: frequent low ids, lengths from 0 to the largest.
struct Batches {
  explicit Batches(const Case& c) {
    std::mt19937_64 random(static_cast<std::uint64_t>(c.ranks * 1000 + c.config.rows));
    for (int t = 0; t <= c.steps; ++t) {
      ids.emplace_back();
      gradients.emplace_back();
      for (int r = 0; r < c.ranks; ++r) {
        const std::int64_t length =
            (r + t) % 4 == 3 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.config.largest_batch + 1));
        auto& batch = ids.back().emplace_back();
        for (std::int64_t i = 0; i < length; ++i) {
          const double u = static_cast<double>(random() >> 11) * 0x1p-53;
          batch.push_back(std::min(c.config.rows - 1, static_cast<std::int64_t>(static_cast<double>(c.config.rows) * u * u * u)));
        }
        auto& g = gradients.back().emplace_back();
        for (std::int64_t i = 0; i < length * c.config.width; ++i) g.push_back(table_gradient(c.config, random));
      }
    }
  }
  std::vector<Ids> ids;
  std::vector<Gradients> gradients;
};

std::vector<float> all_rows(EmbeddingTable& table, bool mine) {
  const std::int64_t rows = mine ? table.config().rows : 0;
  std::vector<float> values(static_cast<std::size_t>(rows * table.config().width));
  table.export_rows(0, rows, values);
  return values;
}

std::vector<float> initial_values(const EmbeddingConfig& config) {
  std::vector<float> values;
  run_ranks(1, [&](Communicator& comm) {
    EmbeddingTable table(comm, config);
    values = all_rows(table, true);
  });
  return values;
}

std::vector<std::int64_t> announced(const Case& c, const Batches& batches, std::size_t step, int rank) {
  std::vector<std::int64_t> ids = batches.ids[step][static_cast<std::size_t>(rank)];
  if (c.prefetch == Prefetch::wrong || (c.prefetch == Prefetch::wrong_on_one && rank == c.ranks / 2))
    for (std::int64_t& id : ids) id = (id + 1) % c.config.rows;
  return ids;
}

bool announced_right(const Case& c, const Batches& batches, std::size_t step) {
  bool right = c.prefetch != Prefetch::never;
  for (int rank = 0; rank < c.ranks; ++rank)
    right = right && announced(c, batches, step, rank) == batches.ids[step][static_cast<std::size_t>(rank)];
  return right;
}

/// Returns the trained table, as rank 0 exports it.
std::vector<float> check_case(const Case& c) {
  const Batches batches(c);
  RankCheck check;
  std::vector<float> trained;
  const std::vector<float> initial = initial_values(c.config);
  std::vector<std::vector<float>> expected;  // the table before each step, and after the last one
  TableOracle oracle(c.config, initial);
  std::vector<std::vector<std::vector<float>>> vectors;
  for (int t = 0; t < c.steps; ++t) {
    const auto at = static_cast<std::size_t>(t);
    vectors.emplace_back();
    for (const auto& ids : batches.ids[at]) vectors.back().push_back(oracle.lookup(ids));
    oracle.update(batches.ids[at], batches.gradients[at]);
  }
  run_ranks(
      c.ranks,
      [&](Communicator& comm) {
        EmbeddingTable table(comm, c.config);
        const auto rank = static_cast<std::size_t>(comm.rank());
        for (int t = 0; t < c.steps; ++t) {
          const auto at = static_cast<std::size_t>(t);
          const auto& ids = batches.ids[at][rank];
          std::vector<float> out(ids.size() * static_cast<std::size_t>(c.config.width), -1);
          table.lookup(std::span(ids), out).wait();
          check.that(same_bits(out, vectors[at][rank]),
                     c.text() + " vectors of step " + std::to_string(t) + " rank " + std::to_string(rank));
          check.that(table.statistics().prefetched == (t > 0 && announced_right(c, batches, at)), c.text() + " prefetched");
          if (c.prefetch != Prefetch::never)
            table.prefetch(std::span<const std::int64_t>(announced(c, batches, at + 1, comm.rank())));
          std::vector<float> gradients = batches.gradients[at][rank];
          table.update(gradients);
          std::fill(gradients.begin(), gradients.end(), 77.0f);  // must be valid only until the call returns
        }
        const std::vector<float> values = all_rows(table, comm.rank() == 0);
        if (comm.rank() == 0) {
          check.that(same_bits(values, oracle.values()), c.text() + " trained table");
          trained = values;
        }
      },
      c.options);
  INFO(c.text());
  CHECK(check.failure() == "");
  return trained;
}

}  // namespace

TEST_CASE("every exchange, any number of ranks, is the oracle") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const int ranks : {1, 2, 3, 5, 7, 8, 33}) {
      for (const auto& [rows, width, largest] : {std::tuple{1, 1, 1}, {2, 3, 5}, {37, 5, 20}, {1000, 33, 64}}) {
        if (left_out(4)) continue;
        Case c{make_table_config(exchange.name, rows, width, largest), ranks};
        c.config.optimizer = static_cast<Optimizer>((ranks + rows) % 4);
        c.prefetch = static_cast<Prefetch>((ranks + width) % 4);
        c.options.seed = static_cast<std::uint64_t>(ranks);
        check_case(c);
      }
    }
  }
}

TEST_CASE("on machines with several nodes, directly and by node") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const auto& [machine, ranks] : {std::pair{"nodes:3,1,2", 6}, {"node:4 rank:2", 8}, {"switch:2 node:2 rank:3", 12}}) {
      for (const Routing routing : {Routing::direct, Routing::by_node, Routing::automatic}) {
        Case c{make_table_config(exchange.name, 50, 13, 30), ranks};
        c.config.routing = routing;
        c.options.machine = machine;
        check_case(c);
      }
    }
  }
}

TEST_CASE("narrow values are rounded alike for every rank, sums are not") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
      for (const int ranks : {1, 3, 4}) {
        Case c{make_table_config(exchange.name, 40, 7, 25), ranks};
        c.config.wire_values = values;
        c.config.optimizer = Optimizer::adagrad;
        check_case(c);
      }
    }
  }
}

TEST_CASE("prior and delayed rows train the table that one update trains, bit for bit") {
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam}) {
    for (const ExchangeInfo& exchange : exchanges()) {
      std::vector<std::vector<float>> tables;
      for (const Prefetch prefetch : {Prefetch::never, Prefetch::right, Prefetch::wrong_on_one, Prefetch::wrong}) {
        Case c{make_table_config(exchange.name, 60, 6, 40), 4, prefetch};
        c.config.optimizer = optimizer;
        c.config.delayed_priority = -1;
        c.steps = 8;
        tables.push_back(check_case(c));
      }
      for (const auto& table : tables) CHECK(same_bits(table, tables[0]));
    }
  }
}

TEST_CASE("the initial table is the same for every number of ranks and every exchange") {
  const std::vector<float> right = initial_values(make_table_config("columns", 101, 7, 16));
  CHECK(std::any_of(right.begin(), right.end(), [](float x) { return x < -0.02f; }));
  CHECK(std::all_of(right.begin(), right.end(), [](float x) { return x >= -0.05f && x < 0.05f; }));
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const int ranks : {2, 3, 8}) {
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        EmbeddingTable table(comm, make_table_config(exchange.name, 101, 7, 16));
        check.that(same_bits(all_rows(table, true), right), std::string(exchange.name) + " P " + std::to_string(ranks));
      });
      CHECK(check.failure() == "");
    }
  }
}

TEST_CASE("rows are imported and exported in ranges of any size") {
  for (const ExchangeInfo& exchange : exchanges()) {
    constexpr int ranks = 3;
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      EmbeddingTable table(comm, make_table_config(exchange.name, 50, 4, 8));
      // Rank r writes rows [10 r, 10 r + 25). In overlaps the highest rank wins.
      std::vector<float> mine(25 * 4, static_cast<float>(comm.rank() + 1));
      table.import_rows(10 * comm.rank(), 25, mine);
      const std::int64_t first = 5 * comm.rank(), count = comm.rank() == 1 ? 0 : 40;
      std::vector<float> out(static_cast<std::size_t>(count * 4));
      table.export_rows(first, count, out);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = first + i;
        const float right = row >= 20 && row < 45 ? 3.0f : row >= 10 && row < 20 ? 2.0f : row < 10 ? 1.0f : 0.0f;
        if (row >= 45) continue;
        for (int c = 0; c < 4; ++c) check.that(out[static_cast<std::size_t>(i * 4 + c)] == right, "row " + std::to_string(row));
      }
    });
    INFO(exchange.name);
    CHECK(check.failure() == "");
  }
}
