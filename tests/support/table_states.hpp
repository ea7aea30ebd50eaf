// table_states.hpp: checks that a table restored from a saved state delivers and learns the same as an uninterrupted one.
#pragma once

#include "embedding/table.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/saved_states.hpp"
#include "support/table_training.hpp"

namespace weir::test {

/// `Table` is made from communicator and configuration. It looks up ids, returns vectors, and updates. Its `table` is the table.
template <class Table>
std::vector<float> table_step(Table& trained, const Communicator& comm, int step) {
  const TableBatch batch = make_table_batch(trained.table.config(), comm.rank(), step);
  std::vector<float> vectors = trained.lookup(batch.ids);
  Operation prefetch = trained.prefetch(make_table_batch(trained.table.config(), comm.rank(), step + 1).ids);
  if (step == 1) trained.table.set_learning_rate(0.125);
  Operation update = trained.update(batch.gradients);  // rows that the next batch does not need are delayed
  update.wait();
  prefetch.wait();
  return vectors;
}

/// Returns what is wrong, or "".
template <class Table>
std::string table_going_on(const EmbeddingConfig& config, int rank_count, const std::string& machine) {
  constexpr int steps = 6, saved_after = 3;
  struct Kept {
    SavedState middle, end;
    std::vector<std::vector<float>> vectors;
  };
  std::vector<Kept> kept(static_cast<std::size_t>(rank_count));
  RankCheck check;
  const RankOptions options{.seed = 5, .machine = machine};
  run_ranks(
      rank_count,
      [&](Communicator& comm) {
        Kept& mine = kept[static_cast<std::size_t>(comm.rank())];
        Table trained(comm, config);
        for (int t = 0; t < steps; ++t) {
          if (t == saved_after) mine.middle = save_state(*trained.table.state());
          mine.vectors.push_back(table_step(trained, comm, t));
        }
        mine.end = save_state(*trained.table.state());
      },
      options);
  run_ranks(
      rank_count,
      [&](Communicator& comm) {
        const Kept& mine = kept[static_cast<std::size_t>(comm.rank())];
        EmbeddingConfig other = config;
        other.seed = 99;
        other.learning_rate = 77;
        Table trained(comm, other);
        table_step(trained, comm, 0);  // the restore must overwrite it, including the prefetch
        restore_state(*trained.table.state(), mine.middle, "table 'words'");
        check.that(first_difference(save_state(*trained.table.state()), mine.middle) == "", "saved again");
        for (int t = saved_after; t < steps; ++t)
          check.that(same_bits(table_step(trained, comm, t), mine.vectors[static_cast<std::size_t>(t)]),
                     "vectors of step " + std::to_string(t));
        check.that(first_difference(save_state(*trained.table.state()), mine.end) == "", "the state at the end");
      },
      options);
  return check.failure();
}

template <class Table>
std::string tables_going_on(std::string_view exchange) {
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam}) {
    for (const auto& [rank_count, machine] : {std::pair{1, ""}, {3, "node:3 rank:1"}, {5, "nodes:2,3"}}) {
      EmbeddingConfig config = make_table_config(exchange, 60, 7, 30);
      config.optimizer = optimizer;
      config.delayed_priority = -1;
      config.wire_values = rank_count == 3 ? WireValues::bfloat16 : WireValues::native;
      config.routing = rank_count == 5 ? Routing::by_node : Routing::automatic;
      const std::string failure = table_going_on<Table>(config, rank_count, machine);
      if (!failure.empty()) return text_of(config, rank_count, Prefetch::right, machine) + ": " + failure;
    }
  }
  return "";
}

}  // namespace weir::test
