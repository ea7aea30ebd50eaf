// Calls on tables in different orders on the ranks: each rank's prefetches before a lookup or an update, several tables in flight,
// and tables moved or destroyed with operations in flight.
#include <algorithm>
#include <weir/embedding.hpp>

#include "embedding/trainee.hpp"
#include "support/catch.hpp"

namespace weir::test {

TEST_CASE("ranks may prefetch before or after their update or lookup, more than once, and none waits for the others") {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    with_tables(
        [](Trainee& t, SameErrors&) {
          const auto prefetch = [&](int step) { return t.table.prefetch(std::span<const std::int64_t>(t.batch(step).ids)); };
          int step = 0;
          t.lookup(step);
          for (const int late : {0, 1, 2}) {  // which rank calls in another order
            if (t.rank() != late) prefetch(step + 1);
            Operation update = t.table.update(t.batch(step).gradients);
            if (t.rank() == late) prefetch(step + 1);
            t.updated(step++);
            t.lookup(step);
            update.wait();
          }
          // With the previous update still in flight, the first prefetch is discarded.
          prefetch(step + 1);
          t.table.update(t.batch(step).gradients);
          t.updated(step++);
          prefetch(step + 1);
          prefetch(step);
          t.lookup(step);
          // Before and after a lookup.
          if (t.wrong()) prefetch(step + 1);
          t.lookup(step);
          if (!t.wrong()) prefetch(step + 1);
          t.table.update(t.batch(step).gradients);
          t.updated(step++);
          t.lookup(step);
          t.update(step);
        },
        {.seed = seed});
  }
}

TEST_CASE("updates and prefetches of two tables start in different orders") {
  for (const ExchangeInfo& exchange : exchanges()) {
    SameErrors errors(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      Trainee first(comm, small_table(exchange.name), errors.check()), second(comm, small_table(exchange.name), errors.check());
      for (int step = 0; step < 4; ++step) {
        first.lookup(step);
        second.lookup(step);
        Trainee& one = first.wrong() ? second : first;
        Trainee& other = first.wrong() ? first : second;
        for (Trainee* t : {&one, &other}) {
          t->table.update(t->batch(step).gradients);
          t->table.prefetch(std::span<const std::int64_t>(t->batch(step + 1).ids));
          t->updated(step);
        }
      }
      first.check_works();
      second.check_works();
    });
    INFO(exchange.name);
    REQUIRE(errors.failure() == "");
  }
}

TEST_CASE("a lookup fails while the update before still looks at its batch") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    with_tables(
        [](Trainee& t, SameErrors& errors) {
          t.lookup(0);
          t.table.prefetch(std::span<const std::int64_t>(t.batch(1).ids));
          Operation update = t.table.update(t.batch(0).gradients);
          t.updated(0);
          errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "rank 1 looks up id 20", [&] {
            std::vector<float> vectors(4);
            if (t.wrong())
              t.table.lookup(std::span<const std::int64_t>(Id64{20}), vectors).wait();
            else
              t.lookup(1);
          });
          t.lookup(2);
          t.update(2);
          update.wait();
        },
        {.seed = seed});
  }
}

TEST_CASE("ranks that have different prefetches in mind split their updates alike") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    with_tables(
        [](Trainee& t, SameErrors& errors) {
          for (int step = 0; step < 4; ++step) {
            t.lookup(step);
            t.prefetch(step + 7);
            if (t.wrong()) t.prefetch(step + 1);
            Operation update = t.table.update(t.batch(step).gradients);
            if (!t.wrong()) t.prefetch(step + 1);
            t.updated(step);
            t.lookup(step + 1);
            errors.check().that(t.table.statistics().prefetched, "all have prefetched this batch");
            update.wait();
            errors.check().that(t.table.statistics().prior_rows == t.distinct_rows(step),
                                "without a next batch all rows are prior");
            t.update(step + 1);
          }
        },
        {.seed = seed});
  }
}

TEST_CASE("ranks whose ids came by different prefetches gather them again") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    with_tables(
        [](Trainee& t, SameErrors& errors) {
          for (int step = 0; step < 4; ++step) {
            const TableBatch mine = t.batch(step);
            std::vector<float> vectors = room_for(t.table, mine);
            t.prefetch(t.wrong() ? step : step + 7);
            if (!t.wrong()) t.prefetch(step);
            Operation lookup = t.table.lookup(std::span<const std::int64_t>(mine.ids), vectors);
            if (t.wrong()) t.prefetch(step + 9);
            lookup.wait();
            errors.check().that(same_bits(vectors, t.oracle.lookup(mine.ids)), "vectors of step " + std::to_string(step));
            errors.check().that(!t.table.statistics().prefetched, "no prefetch was this batch's on all ranks");
            t.update(step);
          }
        },
        {.seed = seed});
  }
}

TEST_CASE("tables are moved and assigned with an update in flight") {
  for (const ExchangeInfo& exchange : exchanges()) {
    RankCheck check;
    run_ranks(ranks,
              [&](Communicator& comm) {
                Trainee first(comm, small_table(exchange.name), check);
                first.lookup(0);
                Operation update = first.table.update(first.batch(0).gradients);
                first.updated(0);
                EmbeddingTable moved(std::move(first.table));
                first.table = std::move(moved);
                update.wait();
                first.check_works();

                Trainee second(comm, small_table(exchange.name), check);
                second.lookup(0);
                second.table.prefetch(std::span<const std::int64_t>(second.batch(1).ids));
                second.table.update(second.batch(0).gradients);
                second.table = std::move(first.table);  // waits for operations in flight
                second.oracle = first.oracle;
                second.check_works();
                second.check_values("after assignment");
                EmbeddingTable& self = second.table;
                second.table = std::move(self);
                second.check_works();
                second.lookup(200);
                second.table.update(second.batch(200).gradients);  // destroyed in flight
              },
              {.seed = 3});
    INFO(exchange.name);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a table that ends with a lookup in flight writes no vectors any more, and finishes it for the other ranks") {
  for (const ExchangeInfo& exchange : exchanges()) {
    SameErrors errors(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      std::vector<float> vectors;
      {
        Trainee t(comm, small_table(exchange.name), errors.check());
        const std::vector<std::int64_t> ids = t.batch(0).ids;
        vectors.assign(ids.size() * static_cast<std::size_t>(t.table.config().width), -7);
        Operation lookup = t.table.lookup(std::span<const std::int64_t>(ids), vectors);
        if (!t.wrong()) lookup.wait();
      }
      const bool untouched = std::all_of(vectors.begin(), vectors.end(), [](float v) { return v == -7; });
      errors.check().that(vectors.empty() || untouched == (comm.rank() == wrong_rank), std::string(exchange.name));
    });
    REQUIRE(errors.failure() == "");
  }
}

}  // namespace weir::test
