// Embedding tables in the steady state: no allocations, the bytes of the formulas, statistics computed by hand, and tables in
// flight together with dense plans.
#include <numeric>
#include <set>
#include <weir/embedding.hpp>
#include <weir/schedule.hpp>

#include "embedding/partition.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 4;

EmbeddingConfig make_config(std::string_view exchange) {
  EmbeddingConfig config;
  config.rows = 60;
  config.width = 8;
  config.largest_batch = 20;
  config.exchange = exchange;
  config.learning_rate = 0.25;
  return config;
}

/// Runs one step; may prefetch the next batch.
void run_step(EmbeddingTable& table, const TableBatch& batch, const TableBatch* next, std::vector<float>& vectors) {
  table.lookup(std::span<const std::int64_t>(batch.ids), std::span(vectors).first(batch.gradients.size())).wait();
  if (next != nullptr) table.prefetch(std::span<const std::int64_t>(next->ids));
  table.update(batch.gradients);
}

std::set<std::int64_t> distinct_ids(const std::vector<TableBatch>& batches) {
  std::set<std::int64_t> ids;
  for (const TableBatch& batch : batches) ids.insert(batch.ids.begin(), batch.ids.end());
  return ids;
}

std::set<std::int64_t> distinct_ids(const TableBatch& batch) { return distinct_ids(std::vector{batch}); }

/// Adds up the ranks' statistics.
class SumOverRanks {
 public:
  void add(std::int64_t value) {
    const std::scoped_lock lock(mutex_);
    sum_ += value;
  }
  [[nodiscard]] std::int64_t get() const { return sum_; }

 private:
  std::mutex mutex_;
  std::int64_t sum_ = 0;
};

void check_allocations(const Communicator& comm, const EmbeddingConfig& config, bool prefetched, RankCheck& check) {
  constexpr int steps = 60;
  std::vector<TableBatch> batches;
  for (int t = 0; t <= steps; ++t) batches.push_back(make_table_batch(config, comm.rank(), t));
  EmbeddingTable table(comm, config);
  std::vector<float> vectors(static_cast<std::size_t>(config.largest_batch * config.width));
  std::int64_t before = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    if (t == steps / 2) before = allocations_of_this_thread();
    run_step(table, batches[t], prefetched ? &batches[t + 1] : nullptr, vectors);
  }
  check.at_most(allocations_of_this_thread() - before, std::int64_t{0}, "allocations");
}

/// Exports and imports this rank's own ranges, of any length, some larger than a batch.
void check_range_allocations(const Communicator& comm, const EmbeddingConfig& config, RankCheck& check) {
  EmbeddingTable table(comm, config);
  std::vector<float> values(static_cast<std::size_t>(config.rows * config.width));
  std::int64_t before = 0;
  for (int turn = 0; turn < 40; ++turn) {
    if (turn == 20) before = allocations_of_this_thread();
    const std::int64_t first = (7 * turn + 11 * comm.rank()) % config.rows;
    const std::int64_t count = turn % 3 == comm.rank() ? 0 : (config.rows - first) * (turn % 4) / 3;
    const auto mine = std::span(values).first(static_cast<std::size_t>(count * config.width));
    table.export_rows(first, count, mine);
    table.import_rows(first, count, mine);
  }
  check.at_most(allocations_of_this_thread() - before, std::int64_t{0}, "allocations");
}

/// Two tables and two dense plans; collects a rank's results after some steps.
class HybridModel {
 public:
  HybridModel(const Communicator& comm, std::string_view exchange) : rank_(comm.rank()) {
    for (int i = 0; i < 2; ++i) {
      EmbeddingConfig config = make_config(exchange);
      config.rows += i;
      config.optimizer = i == 0 ? Optimizer::adam : Optimizer::sgd;
      tables_.emplace_back(comm, config);
    }
    for (const std::string& block : blocks_)
      plans_.emplace_back(comm, AllreduceConfig{.count = 3000, .algorithm = "dense_ring", .priority = schedule_.priority(block)});
  }

  /// Runs everything one after another.
  void step_in_turn(int t) {
    look_up(t, 0);
    for (std::size_t p = 0; p < 2; ++p) {
      make_gradient(t, p);
      plans_[p].run(gradients_[p]);
    }
    for (EmbeddingTable& table : tables_) table.update(batch(table, t).gradients).wait();
    keep_results();
  }

  /// Runs everything at once, started and awaited in this rank's own order.
  void step_at_once(int t) {
    look_up(t, rank_);
    for (int i = 0; i < 4; ++i) {
      const auto what = static_cast<std::size_t>(i + rank_ + t) % 4;
      if (what < 2) {
        make_gradient(t, what);
        schedule_.started(blocks_[what], plans_[what].start(gradients_[what]));
      } else {
        EmbeddingTable& table = tables_[what - 2];
        if (t % 3 != 2) table.prefetch(std::span<const std::int64_t>(batch(table, t + 1).ids));
        table.update(batch(table, t).gradients);
      }
    }
    schedule_.wait(blocks_[static_cast<std::size_t>(rank_ + t) % 2]);
    schedule_.wait_all();
    keep_results();
  }

  [[nodiscard]] std::vector<std::vector<float>> results() {
    for (EmbeddingTable& table : tables_) results_.push_back(all_rows(table));
    return results_;
  }

 private:
  [[nodiscard]] TableBatch batch(const EmbeddingTable& table, int t) const { return make_table_batch(table.config(), rank_, t); }
  void make_gradient(int t, std::size_t p) {
    gradients_[p] = make_input<float>(Input::heavy_tailed, 3000, rank_, ranks, 2 * t + static_cast<int>(p));
  }
  void look_up(int t, int first) {
    std::array<std::vector<float>, 2> vectors;
    std::array<std::optional<Operation>, 2> operations;
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<std::size_t>(i + first) % 2;
      const TableBatch mine = batch(tables_[at], t);
      vectors[at] = room_for(tables_[at], mine);
      operations[at] = tables_[at].lookup(std::span<const std::int64_t>(mine.ids), vectors[at]);
    }
    for (auto& operation : operations) operation->wait();
    results_.insert(results_.end(), vectors.begin(), vectors.end());
  }
  void keep_results() { results_.insert(results_.end(), gradients_.begin(), gradients_.end()); }

  int rank_;
  std::array<std::string, 2> blocks_ = {"encoder", "decoder"};
  StepSchedule schedule_{{"encoder", "decoder"}};
  std::array<std::vector<float>, 2> gradients_;
  std::vector<std::vector<float>> results_;
  std::vector<EmbeddingTable> tables_;
  std::vector<AllreducePlan> plans_;
};

}  // namespace

TEST_CASE("no heap allocation in the steady state of tables") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const std::string machine : {"", "node:2 rank:2"}) {
      for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
        for (const bool prefetched : {false, true}) {
          EmbeddingConfig config = make_config(exchange.name);
          config.routing = Routing::by_node;
          config.wire_values = values;
          config.optimizer = Optimizer::adam;
          RankCheck check;
          run_ranks(ranks, [&](Communicator& comm) { check_allocations(comm, config, prefetched, check); }, {.machine = machine});
          INFO(exchange.name << " on '" << machine << "' values " << static_cast<int>(values) << " prefetched " << prefetched);
          REQUIRE(check.failure() == "");
        }
      }
    }
  }
}

TEST_CASE("no heap allocation when ranges of rows are exported and imported") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const std::string machine : {"", "node:2 rank:2"}) {
      EmbeddingConfig config = make_config(exchange.name);
      config.routing = Routing::by_node;
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) { check_range_allocations(comm, config, check); }, {.machine = machine});
      INFO(exchange.name << " on '" << machine << "'");
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("by columns, vectors and gradients are 2 (P - 1) / P of the distinct rows, to the byte") {
  for (const int size : {1, 2, 4, 8}) {
    for (const bool prefetched : {false, true}) {
      const EmbeddingConfig config = make_config("columns");
      constexpr int last = 3;
      SumOverRanks lookup, gradient, ids;
      run_ranks(size, [&](Communicator& comm) {
        EmbeddingTable table(comm, config);
        std::vector<float> vectors(static_cast<std::size_t>(config.largest_batch * config.width));
        for (int t = 0; t <= last; ++t) {
          const TableBatch next = make_table_batch(config, comm.rank(), t + 1);
          run_step(table, make_table_batch(config, comm.rank(), t), prefetched ? &next : nullptr, vectors);
        }
        static_cast<void>(all_rows(table));  // bytes of export and prefetch do not count for the batch
        const EmbeddingStatistics& s = table.statistics();
        lookup.add(s.lookup_bytes_sent);
        gradient.add(s.gradient_bytes_sent);
        ids.add(s.id_bytes_sent);
      });
      std::int64_t distinct = 0;
      for (const TableBatch& batch : make_table_batches(config, size, last))
        distinct += static_cast<std::int64_t>(distinct_ids(batch).size());
      const std::int64_t half = (size - 1) * distinct * config.width * 4 / size;
      CHECK(lookup.get() == half);
      CHECK(gradient.get() == half);
      CHECK(ids.get() <= (size - 1) * 4 * distinct);
    }
  }
}

TEST_CASE("statistics of tables") {
  constexpr int last = 5;
  for (const embedding::TableExchange& exchange : embedding::exchange_registry()) {
    for (const std::string machine : {"", "node:2 rank:2"}) {
      for (const bool prefetched : {false, true}) {
        const EmbeddingConfig config = make_config(exchange.name);
        const std::set<std::int64_t> all = distinct_ids(make_table_batches(config, ranks, last));
        const std::set<std::int64_t> next_of_all = distinct_ids(make_table_batches(config, ranks, last + 1));
        SumOverRanks stepped;
        RankCheck check;
        run_ranks(
            ranks,
            [&](Communicator& comm) {
              EmbeddingTable table(comm, config);
              std::vector<float> vectors(static_cast<std::size_t>(config.largest_batch * config.width));
              for (int t = 0; t <= last; ++t) {
                const TableBatch next = make_table_batch(config, comm.rank(), t + 1);
                run_step(table, make_table_batch(config, comm.rank(), t), prefetched ? &next : nullptr, vectors);
              }
              static_cast<void>(all_rows(table));
              const EmbeddingStatistics& s = table.statistics();
              const TableBatch mine = make_table_batch(config, comm.rank(), last);
              const std::set<std::int64_t> rows = distinct_ids(mine);
              const auto prior =
                  std::count_if(rows.begin(), rows.end(), [&](std::int64_t id) { return next_of_all.count(id) > 0; });
              const auto distinct = static_cast<std::int64_t>(rows.size());
              const bool splits = prefetched && exchange.path != embedding::GradientPath::allreduce;
              check.that(s.tokens == static_cast<std::int64_t>(mine.ids.size()), "tokens");
              check.that(s.distinct_rows == distinct, "distinct rows");
              check.that(s.prior_rows == (splits ? prior : distinct), "prior rows");
              check.that(s.prefetched == prefetched, "prefetched");
              check.that(std::accumulate(s.bytes_sent.begin(), s.bytes_sent.end(), std::int64_t{0}) ==
                             s.id_bytes_sent + s.lookup_bytes_sent + s.gradient_bytes_sent + s.control_bytes_sent,
                         "bytes by level add up");
              check.that((s.bytes_sent[static_cast<std::size_t>(Level::system)] > 0) == !machine.empty(), "bytes across nodes");
              check.that((s.lookup_bytes_sent == 0) || !exchange.replicated(), "a table of one's own is looked up without vectors");
              check.that(s.seconds_lookup > 0 && s.seconds_coalesce <= s.seconds_prior && s.seconds_prior <= s.seconds_update,
                         "seconds");
              check.that(!s.by_node || (!machine.empty() && !exchange.replicated()), "by node");
              if (exchange.split == embedding::TableSplit::columns || exchange.replicated())
                check.that(s.updated_rows == static_cast<std::int64_t>(all.size()), "updated rows");
              stepped.add(s.updated_rows);
            },
            {.machine = machine});
        INFO(exchange.name << " on '" << machine << "' prefetched " << prefetched);
        REQUIRE(check.failure() == "");
        if (exchange.split != embedding::TableSplit::columns && !exchange.replicated())
          CHECK(stepped.get() == static_cast<std::int64_t>(all.size()));
      }
    }
  }
}

TEST_CASE("tables and dense plans in flight at once, in different orders on different ranks, as one after another") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      RankCheck check;
      run_ranks(ranks,
                [&](Communicator& comm) {
                  HybridModel in_turn(comm, exchange.name), at_once(comm, exchange.name);
                  for (int t = 0; t < 7; ++t) in_turn.step_in_turn(t);
                  for (int t = 0; t < 7; ++t) at_once.step_at_once(t);
                  const auto right = in_turn.results(), results = at_once.results();
                  check.that(right.size() == results.size(), "number of results");
                  for (std::size_t i = 0; i < right.size(); ++i)
                    check.that(same_bits(results[i], right[i]), "result " + std::to_string(i));
                },
                {.seed = seed, .machine = "node:2 rank:2"});
      INFO(exchange.name << " seed " << seed);
      REQUIRE(check.failure() == "");
    }
  }
}

}  // namespace weir::test
