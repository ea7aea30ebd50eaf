// trainee.hpp: tables of three ranks. One of the ranks makes a mistake, or makes its calls in another order.
#pragma once

#include <functional>
#include <set>
#include <weir/embedding.hpp>

#include "support/catch.hpp"
#include "support/same_errors.hpp"
#include "support/table_training.hpp"

namespace weir::test {

inline constexpr int ranks = 3;
inline constexpr int wrong_rank = 1;

inline EmbeddingConfig small_table(std::string_view exchange = "columns") {
  EmbeddingConfig config;
  config.rows = 20;
  config.width = 4;
  config.largest_batch = 6;
  config.exchange = exchange;
  config.learning_rate = 0.25;
  config.name = "words";
  return config;
}

/// A rank's table and its expected content.
class Trainee {
 public:
  Trainee(const Communicator& comm, const EmbeddingConfig& config, RankCheck& check)
      : comm_(comm), check_(check), table(comm, config), oracle(config, all_rows(table)) {}

  [[nodiscard]] bool wrong() const { return comm_.rank() == wrong_rank; }
  [[nodiscard]] int rank() const { return comm_.rank(); }
  [[nodiscard]] TableBatch batch(int step) const { return make_table_batch(table.config(), comm_.rank(), step); }

  void lookup(int step) {
    const TableBatch mine = batch(step);
    std::vector<float> vectors = room_for(table, mine);
    table.lookup(std::span<const std::int64_t>(mine.ids), vectors).wait();
    check_.that(same_bits(vectors, oracle.lookup(mine.ids)), "vectors of step " + std::to_string(step));
  }
  [[nodiscard]] std::int64_t distinct_rows(int step) const {
    const TableBatch mine = batch(step);
    return static_cast<std::int64_t>(std::set<std::int64_t>(mine.ids.begin(), mine.ids.end()).size());
  }
  Operation prefetch(int step) { return table.prefetch(std::span<const std::int64_t>(batch(step).ids)); }
  void update(int step) {
    table.update(batch(step).gradients).wait();
    updated(step);
  }
  /// Applies an update of all ranks to the expected content.
  void updated(int step) {
    Ids ids;
    Gradients gradients;
    for (const TableBatch& b : make_table_batches(table.config(), comm_.size(), step)) {
      ids.push_back(b.ids);
      gradients.push_back(b.gradients);
    }
    oracle.update(ids, gradients);
  }
  void check_works() {
    for (int i = 0; i < 2; ++i, ++step_) {
      lookup(step_);
      if (i == 0) table.prefetch(std::span<const std::int64_t>(batch(step_ + 1).ids));
      update(step_);
    }
  }
  void check_values(const std::string& where) { check_.that(same_bits(all_rows(table), oracle.values()), "values " + where); }

 private:
  const Communicator& comm_;
  RankCheck& check_;
  int step_ = 100;

 public:
  EmbeddingTable table;
  TableOracle oracle;
};

/// Runs `body` with a table of every exchange on every rank.
inline void with_tables(const std::function<void(Trainee&, SameErrors&)>& body, const RankOptions& options = {}) {
  for (const ExchangeInfo& exchange : exchanges()) {
    SameErrors errors(ranks);
    run_ranks(
        ranks,
        [&](Communicator& comm) {
          Trainee trainee(comm, small_table(exchange.name), errors.check());
          body(trainee, errors);
          trainee.check_works();
          trainee.check_values("at the end");
        },
        options);
    INFO(exchange.name << " seed " << options.seed);
    REQUIRE(errors.failure() == "");
  }
}

using Id32 = std::vector<std::int32_t>;
using Id64 = std::vector<std::int64_t>;

}  // namespace weir::test
