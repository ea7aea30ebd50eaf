// Wrong calls on embedding tables give the same error on every rank, which names the mistake. Afterwards the table works. Also
// tests peers that fall silent.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <weir/embedding.hpp>

#include "embedding/trainee.hpp"
#include "support/catch.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

template <class Id>
std::span<const Id> null_ids(std::size_t count) {
  return {static_cast<const Id*>(nullptr), count};
}
std::span<float> null_floats(std::size_t count) { return {static_cast<float*>(nullptr), count}; }

void refuse_config(weir_status status, const std::string& part, const std::function<void(EmbeddingConfig&)>& spoil,
                   EmbeddingConfig config = small_table()) {
  REQUIRE(unlike_errors(ranks, status, part, [&](Communicator& comm) {
            EmbeddingConfig mine = config;
            if (comm.rank() == wrong_rank) spoil(mine);
            EmbeddingTable table(comm, mine);
          }) == "");
}

}  // namespace

TEST_CASE("bad configurations of tables are refused on all ranks, saying what would be right") {
  const auto refuse = [](const std::string& part, const std::function<void(EmbeddingConfig&)>& spoil) {
    refuse_config(WEIR_ERR_ARGUMENT, "table 'words', rank 1: " + part, spoil);
  };
  refuse("rows is 0: it must be between 1 and 2^32 - 1", [](EmbeddingConfig& c) { c.rows = 0; });
  refuse("rows is -1", [](EmbeddingConfig& c) { c.rows = -1; });
  refuse("rows is 4294967296", [](EmbeddingConfig& c) { c.rows = std::int64_t{1} << 32; });
  refuse("width is 0: it must be at least 1", [](EmbeddingConfig& c) { c.width = 0; });
  refuse("width is -3", [](EmbeddingConfig& c) { c.width = -3; });
  refuse("largest_batch is 0: it must be at least 1", [](EmbeddingConfig& c) { c.largest_batch = 0; });
  refuse("exchange is 'carts': it must be one of columns, rows, hashed_rows, server, allgather, dense_allreduce",
         [](EmbeddingConfig& c) { c.exchange = "carts"; });
  refuse("exchange is ''", [](EmbeddingConfig& c) { c.exchange = ""; });
  refuse("exchange is 'xxxx", [](EmbeddingConfig& c) { c.exchange = std::string(100000, 'x'); });
  refuse("optimizer is 4: it must be sgd (0), momentum (1), adagrad (2) or adam (3)",
         [](EmbeddingConfig& c) { c.optimizer = static_cast<Optimizer>(4); });
  refuse("wire_values is 3: it must be native (0), bfloat16 (1) or float16 (2)",
         [](EmbeddingConfig& c) { c.wire_values = static_cast<WireValues>(3); });
  refuse("wire_values is -1", [](EmbeddingConfig& c) { c.wire_values = static_cast<WireValues>(-1); });
  refuse("routing is 3: it must be automatic (0), direct (1) or by_node (2)",
         [](EmbeddingConfig& c) { c.routing = static_cast<Routing>(3); });
  for (const auto& [rate, text] : {std::pair{std::nan(""), "nan"}, {1e39, "1e+39"}, {-1e39, "-1e+39"}})
    refuse("learning_rate is " + std::string(text) + ": it must be finite as float32, at most 3.4e38",
           [bad = rate](EmbeddingConfig& c) { c.learning_rate = bad; });
  refuse("beta1 is 1: it must be at least 0 and below 1", [](EmbeddingConfig& c) { c.beta1 = 1; });
  refuse("beta2 is -0.1", [](EmbeddingConfig& c) { c.beta2 = -0.1; });
  refuse("epsilon is -1: it must be from 0 to 3.4e38", [](EmbeddingConfig& c) { c.epsilon = -1; });
  refuse("epsilon is 0: it must be positive, for Adagrad", [](EmbeddingConfig& c) {
    c.optimizer = Optimizer::adagrad;
    c.epsilon = 0;
  });
  refuse("beta2 is 0.99999999: it must be", [](EmbeddingConfig& c) { c.beta2 = 0.99999999; });
  refuse("largest_batch is 4294967295: with 3 ranks it must be at most 1431655765",
         [](EmbeddingConfig& c) { c.rows = c.largest_batch = 0xffffffff; });
  for (const double range : {std::nan(""), -1.0, 1e39})
    refuse("initial_range is " + fmt::format("{}", range) + ": it must be from 0 to 3.4e38",
           [range](EmbeddingConfig& c) { c.initial_range = range; });
}

TEST_CASE("tables that disagree are refused on all ranks, naming the field") {
  const auto refuse = [](const std::string& field, const std::function<void(EmbeddingConfig&)>& change) {
    refuse_config(WEIR_ERR_MISMATCH, "table 'words': ranks disagree about " + field, change);
  };
  refuse("rows: rank 0 has 20, rank 1 has 21", [](EmbeddingConfig& c) { c.rows = 21; });
  refuse("width: rank 0 has 4, rank 1 has 5", [](EmbeddingConfig& c) { c.width = 5; });
  refuse("largest_batch", [](EmbeddingConfig& c) { c.largest_batch = 7; });
  refuse("exchange: rank 0 has 'columns', rank 1 has 'rows'", [](EmbeddingConfig& c) { c.exchange = "rows"; });
  refuse("optimizer", [](EmbeddingConfig& c) { c.optimizer = Optimizer::adam; });
  refuse("learning_rate: rank 0 has 0.25, rank 1 has 0.5", [](EmbeddingConfig& c) { c.learning_rate = 0.5; });
  refuse("beta1", [](EmbeddingConfig& c) { c.beta1 = 0.8; });
  refuse("beta2", [](EmbeddingConfig& c) { c.beta2 = 0.8; });
  refuse("epsilon", [](EmbeddingConfig& c) { c.epsilon = 1; });
  refuse("average", [](EmbeddingConfig& c) { c.average = false; });
  refuse("wire_values", [](EmbeddingConfig& c) { c.wire_values = WireValues::float16; });
  refuse("routing", [](EmbeddingConfig& c) { c.routing = Routing::direct; });
  refuse("seed", [](EmbeddingConfig& c) { c.seed = 2; });
  refuse("seed", [](EmbeddingConfig& c) { c.seed = std::uint64_t{1} << 40 | 1; });
  refuse("initial_range", [](EmbeddingConfig& c) { c.initial_range = 1; });
  refuse("memory: rank 0 has host, rank 1 has cuda", [](EmbeddingConfig& c) { c.memory = MemorySpace::cuda; });
}

TEST_CASE("a table in CUDA memory is refused by a build without CUDA, naming the option") {
  EmbeddingConfig config = small_table();
  config.memory = MemorySpace::cuda;
  refuse_config(
      WEIR_ERR_UNSUPPORTED,
      "table 'words': rank 0: a table in CUDA memory cannot be made here: this build of Weir has no CUDA: configure it with "
      "-DWEIR_WITH_CUDA=ON",
      [](EmbeddingConfig&) {}, config);
}

TEST_CASE("a table larger than memory is refused before anything is touched") {
  for (const ExchangeInfo& exchange : exchanges()) {
    EmbeddingConfig config = small_table(exchange.name);
    config.rows = (std::int64_t{1} << 32) - 1;
    config.width = 1 << 20;
    refuse_config(
        WEIR_ERR_MEMORY, "table 'words', rank 0: a table of 4294967295 rows x 1048576", [](EmbeddingConfig&) {}, config);
  }
}

TEST_CASE("bad lookups are errors on every rank alike, and the table stays usable") {
  with_tables([](Trainee& t, SameErrors& errors) {
    const auto bad_lookup = [&](const std::string& part, const auto& call) {
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "table 'words': rank 1 looks up " + part, [&] {
        if (t.wrong())
          call();
        else
          t.lookup(0);
      });
      t.check_works();
    };
    const auto bad_ids = [&](const std::string& part, const auto& ids) {
      std::vector<float> vectors(ids.size() * 4);
      bad_lookup(part, [&] { t.table.lookup(std::span(ids), vectors).wait(); });
    };
    bad_ids("id 20 at position 2: ids go from 0 to 19", Id64{0, 19, 20, -4});
    bad_ids("id 20 at position 0", Id32{20});
    bad_ids("id -1 at position 1", Id64{0, -1});
    bad_ids("id -2147483648 at position 0", Id32{std::numeric_limits<std::int32_t>::min()});
    bad_ids("id -9223372036854775808 at position 0", Id64{std::numeric_limits<std::int64_t>::min()});
    bad_ids("id 4294967296 at position 0", Id64{std::int64_t{1} << 32});
    bad_ids("7 ids at once: largest_batch is 6", Id64(7, 1));
    std::vector<float> vectors(8);
    bad_lookup("with an array of 7 elements: it must have 8, one row for each id", [&] {
      t.table.lookup(std::span<const std::int64_t>(Id64{1, 2}), std::span(vectors).first(7)).wait();
    });
    bad_lookup("with an array of 8 elements: it must have 0",
               [&] { t.table.lookup(std::span<const std::int64_t>(), vectors).wait(); });
    bad_lookup("with a null pointer", [&] { t.table.lookup(null_ids<std::int64_t>(2), vectors).wait(); });
    bad_lookup("with a null pointer", [&] { t.table.lookup(null_ids<std::int32_t>(2), vectors).wait(); });
    bad_lookup("with a null pointer", [&] { t.table.lookup(std::span<const std::int64_t>(Id64{1, 2}), null_floats(8)).wait(); });
    bad_lookup("-3 ids at once: largest_batch is 6",
               [&] { t.table.lookup(null_ids<std::int64_t>(static_cast<std::size_t>(-3)), vectors).wait(); });
  });
}

TEST_CASE("a second lookup in flight is refused, the first goes on") {
  with_tables([](Trainee& t, SameErrors& errors) {
    const TableBatch mine = t.batch(0);
    std::vector<float> vectors = room_for(t.table, mine);
    Operation first = t.table.lookup(std::span<const std::int64_t>(mine.ids), vectors);
    if (t.wrong())
      errors.check().that(
          [&] {
            try {
              t.table.lookup(std::span<const std::int64_t>(mine.ids), vectors);
            } catch (const Error& error) {
              return error.status() == WEIR_ERR_BUSY;
            }
            return false;
          }(),
          "the second is refused");
    first.wait();
    errors.check().that(same_bits(vectors, t.oracle.lookup(mine.ids)), "the first one's vectors");
  });
}

TEST_CASE("bad updates are errors on every rank alike, and leave the batch to be updated rightly") {
  with_tables([](Trainee& t, SameErrors& errors) {
    int step = 0;
    const auto bad_update = [&](const std::string& part, const std::function<Operation(std::vector<float>&)>& call) {
      t.lookup(step);
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, part, [&] {
        std::vector<float> gradients = t.batch(step).gradients;
        (t.wrong() ? call(gradients) : t.table.update(gradients)).wait();
      });
      t.update(step++);
    };
    const auto update_without_lookup = [&] {  // each rank sees the mistake itself
      std::string text;
      try {
        static_cast<void>(t.table.update({}));
      } catch (const Error& error) {
        text = error.what();
      }
      errors.check().that(
          text == fmt::format("table 'words': rank {} updates without a finished lookup: each update needs one lookup "
                              "before it, waited for",
                              t.rank()),
          text);
    };
    update_without_lookup();
    const std::size_t right = make_table_batch(t.table.config(), wrong_rank, step).gradients.size();
    bad_update(fmt::format("rank 1 gave gradients of {} elements: they must be as many as the ids of its last lookup x width 4",
                           right + 1),
               [&](std::vector<float>& g) {
                 g.push_back(0);
                 return t.table.update(g);
               });
    update_without_lookup();  // twice is once too often
    bad_update("rank 1 gave gradients", [&](std::vector<float>& g) {
      return t.table.update(g.empty() ? std::span<const float>(t.oracle.values()).first(1) : null_floats(g.size()));
    });

    // The call itself throws on the wrong rank, because waiting for an update is optional.
    t.lookup(step);
    if (t.wrong()) {
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "rank 1 gave gradients of 3 elements",
                    [&] { static_cast<void>(t.table.update(std::span<const float>(t.oracle.values()).first(3))); });
    } else {
      Operation update = t.table.update(t.batch(step).gradients);
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "rank 1 gave gradients of 3 elements", [&] { update.wait(); });
    }
    t.update(step++);

    // One rank does not wait for its lookup.
    const TableBatch mine = t.batch(step);
    std::vector<float> vectors = room_for(t.table, mine);
    Operation lookup = t.table.lookup(std::span<const std::int64_t>(mine.ids), vectors);
    if (!t.wrong()) lookup.wait();
    errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "rank 1 updates without a finished lookup",
                  [&] { t.table.update(mine.gradients).wait(); });
    lookup.wait();
    t.update(step);
  });
}

TEST_CASE("learning rates that differ are an error on every rank, and nothing has changed") {
  with_tables([](Trainee& t, SameErrors& errors) {
    const auto step_of_mismatch = [&](const auto& after) {
      t.lookup(0);
      if (t.wrong()) t.table.set_learning_rate(0.5);
      Operation update = t.table.update(t.batch(0).gradients);
      t.table.set_learning_rate(0.25);
      after();
      errors.expect(t.rank(), WEIR_ERR_MISMATCH, "table 'words': ranks disagree about the learning rate", [&] { update.wait(); });
      t.check_values("after learning rates that differ");
    };
    step_of_mismatch([] {});
    t.update(0);
    step_of_mismatch([&] { t.lookup(1); });  // the other ranks look up the right batch, which comes next
    t.update(1);
    for (const double rate : {std::nan(""), std::numeric_limits<double>::infinity(), 1e39, -1e39})
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "it must be finite", [&] { t.table.set_learning_rate(rate); });
  });
}

TEST_CASE("the learning rates 0.0 and -0.0 are the same") {
  with_tables([](Trainee& t, SameErrors&) {
    t.table.set_learning_rate(t.wrong() ? -0.0 : 0.0);
    t.oracle.set_learning_rate(0);
    for (int step = 0; step < 2; ++step) {
      t.lookup(step);
      t.update(step);
    }
    t.check_values("after steps of no length");
  });
}

TEST_CASE("the largest initial values and learning rates are finite") {
  constexpr float most = std::numeric_limits<float>::max();
  EmbeddingConfig config = small_table();
  config.initial_range = most;
  config.learning_rate = -most;
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    EmbeddingTable table(comm, config);
    for (const float value : all_rows(table)) check.that(std::abs(value) <= most, "finite");
  });
  CHECK(check.failure() == "");
}

TEST_CASE("a bad prefetch is an error at its wait, and the next lookup works") {
  with_tables([](Trainee& t, SameErrors& errors) {
    int step = 0;
    const auto bad_prefetch = [&](const std::string& part, const auto& ids) {
      t.lookup(step);
      Operation prefetch =
          t.wrong() ? t.table.prefetch(std::span(ids)) : t.table.prefetch(std::span<const std::int64_t>(t.batch(step + 1).ids));
      t.update(step++);
      errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "table 'words': rank 1 prefetches " + part, [&] { prefetch.wait(); });
      t.lookup(step);
      errors.check().that(!t.table.statistics().prefetched, "nothing was prefetched");
      t.update(step++);
    };
    bad_prefetch("id 20 at position 1: ids go from 0 to 19", Id64{3, 20});
    bad_prefetch("id -1 at position 0", Id32{-1});
    bad_prefetch("7 ids at once: largest_batch is 6", Id32(7, 0));
    bad_prefetch("with a null pointer", null_ids<std::int64_t>(3));
  });
}

TEST_CASE("a null pointer where the batch was prefetched is an error") {
  with_tables([](Trainee& t, SameErrors& errors) {
    t.table.prefetch(std::span<const std::int64_t>(Id64{1, 2})).wait();
    std::vector<float> vectors(8);
    errors.expect(t.rank(), WEIR_ERR_ARGUMENT, "table 'words': rank 1 looks up with a null pointer", [&] {
      const Id64 ids{1, 2};
      t.table.lookup(t.wrong() ? null_ids<std::int64_t>(2) : std::span<const std::int64_t>(ids), vectors).wait();
    });
  });
}

TEST_CASE("ranges of rows beyond the table are errors on every rank alike") {
  with_tables([](Trainee& t, SameErrors& errors) {
    std::vector<float> values(8);
    const auto bad_range = [&](const std::string& part, std::int64_t first, std::int64_t count, std::span<float> memory) {
      for (const bool imports : {false, true}) {
        const std::string expected = fmt::format("table 'words': rank 1 {} {}", imports ? "imports" : "exports", part);
        errors.expect(t.rank(), WEIR_ERR_ARGUMENT, expected, [&] {
          const std::span<float> good(values);
          if (imports)
            t.wrong() ? t.table.import_rows(first, count, memory) : t.table.import_rows(3, 0, {});
          else
            t.wrong() ? t.table.export_rows(first, count, memory) : t.table.export_rows(3, 2, good);
        });
      }
    };
    bad_range("2 rows from row 19 on: the table has 20 rows, 0 to 19", 19, 2, values);
    bad_range("2 rows from row -1 on", -1, 2, values);
    bad_range("0 rows from row 21 on", 21, 0, {});
    bad_range("-2 rows from row 0 on", 0, -2, values);
    bad_range("with an array of 8 elements: it must have 12, count x width", 0, 3, values);
    bad_range("with a null pointer", 0, 2, null_floats(8));
    t.table.export_rows(20, 0, {});
  });
}

TEST_CASE("a rank without a single id takes part in everything") {
  with_tables([](Trainee& t, SameErrors& errors) {
    const auto ids_of = [](int rank) { return rank == wrong_rank ? Id64{} : Id64{1, 1, 7}; };
    const auto ones_of = [](int rank) { return std::vector<float>(rank == wrong_rank ? 0 : 12, 1.0F); };
    for (int step = 0; step < 3; ++step) {
      const Id64 mine = ids_of(t.rank());
      std::vector<float> vectors(mine.size() * 4);
      t.table.lookup(std::span<const std::int64_t>(mine), vectors).wait();
      errors.check().that(same_bits(vectors, t.oracle.lookup(mine)), "vectors");
      t.table.prefetch(std::span<const std::int64_t>(mine)).wait();
      t.table.update(ones_of(t.rank())).wait();
      t.oracle.update({ids_of(0), ids_of(1), ids_of(2)}, {ones_of(0), ones_of(1), ones_of(2)});
    }
    t.table.import_rows(0, 0, {});
  });
}

TEST_CASE("tables of ranks that all have nothing to say") {
  with_tables([](Trainee& t, SameErrors& errors) {
    for (int step = 0; step < 2; ++step) {
      t.table.lookup(std::span<const std::int64_t>(), {}).wait();
      t.table.prefetch(std::span<const std::int64_t>());
      t.table.update({}).wait();
      errors.check().that(t.table.statistics().updated_rows == 0, "nothing updated");
    }
  });
}

TEST_CASE("a silent peer ends in a timeout with a dump on every survivor, and the table can be destroyed") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const std::string machine : {"nodes:4", "node:2 rank:2"}) {
      for (const std::int64_t after : {20, 33, 47}) {
        if (left_out(4)) continue;
        RankCheck check;
        run_ranks(4,
                  [&](Communicator& comm) {
                    EmbeddingConfig config = small_table(exchange.name);
                    config.routing = Routing::by_node;
                    std::vector<float> vectors;  // outlives operations in flight
                    EmbeddingTable table(comm, config);
                    set_timeout(comm, 0.2);
                    try {
                      for (int t = 0; t < 100; ++t) {
                        const TableBatch batch = make_table_batch(config, comm.rank(), t);
                        vectors = room_for(table, batch);
                        table.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
                        table.prefetch(std::span<const std::int64_t>(make_table_batch(config, comm.rank(), t + 1).ids));
                        table.update(batch.gradients);
                      }
                      check.that(false, "no error");
                    } catch (const Error& error) {
                      const std::string text = error.what();
                      check.that(error.status() == WEIR_ERR_TIMEOUT, text);
                      for (const char* part : {"words: ", "awaits", "[", "rank"})
                        check.that(text.find(part) != std::string::npos, text);
                    }
                  },
                  {.machine = machine, .fault = {.rank = 2, .after = after}});
        INFO(exchange.name << " on '" << machine << "' after " << after);
        REQUIRE(check.failure() == "");
      }
    }
  }
}

}  // namespace weir::test
