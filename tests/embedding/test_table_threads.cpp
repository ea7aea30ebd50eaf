// test_table_threads.cpp: tables of ranks with several threads have the bits of one thread.
#include <weir/embedding.hpp>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/table_training.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

std::vector<TrainedTable> trained_by(int threads, const EmbeddingConfig& config) {
  constexpr int ranks = 3, steps = 3;
  std::vector<TrainedTable> all(ranks);
  run_ranks(ranks, [&](Communicator& comm) { all[static_cast<std::size_t>(comm.rank())] = train_table(comm, config, steps); },
            {.settings = {.timeout_seconds = 120, .threads = threads}});
  return all;
}

}  // namespace

TEST_CASE("tables have the same bits on any number of threads", "[threads]") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
      for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam}) {
        EmbeddingConfig config = make_table_config(exchange.name, 3001, 41, 30000);
        config.optimizer = optimizer;
        config.wire_values = values;
        config.learning_rate = 0.01;
        std::vector<TrainedTable> expected;
        for (const int threads : {2, 3, 7}) {
          if (left_out()) continue;
          if (expected.empty()) expected = trained_by(1, config);
          INFO(exchange.name << " values " << static_cast<int>(values) << " threads " << threads);
          REQUIRE(trained_by(threads, config) == expected);
        }
      }
    }
  }
}

}  // namespace weir::test
