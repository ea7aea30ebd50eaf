// Embedding tables over MPI, started by mpirun with any number of ranks: bit for bit what virtual ranks get.
#include <weir/mpi.h>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

EmbeddingConfig make_config(std::string_view exchange, std::int64_t rows, std::int64_t width, std::int64_t largest_batch) {
  EmbeddingConfig config;
  config.rows = rows;
  config.width = width;
  config.largest_batch = largest_batch;
  config.exchange = exchange;
  return config;
}

/// Returns the result of rank `rank` of `ranks` virtual ranks.
TrainedTable train_on_virtual_ranks(int ranks, int rank, const EmbeddingConfig& config, int steps) {
  TrainedTable trained;
  run_ranks(ranks, [&](Communicator& comm) {
    TrainedTable mine = train_table(comm, config, steps);
    if (comm.rank() == rank) trained = std::move(mine);
  });
  return trained;
}

}  // namespace

TEST_CASE("tables over MPI equal those of virtual ranks bit for bit") {
  const Communicator comm(MPI_COMM_WORLD);
  int turn = 0;
  for (const ExchangeInfo& exchange : exchanges()) {
    EmbeddingConfig config = make_config(exchange.name, 100, 13, 40);
    config.optimizer = static_cast<Optimizer>(turn % 4);
    config.wire_values = static_cast<WireValues>(turn % 3);
    ++turn;
    INFO(exchange.name);
    CHECK(train_table(comm, config, 6) == train_on_virtual_ranks(comm.size(), comm.rank(), config, 6));
  }
}

TEST_CASE("batches beyond any eager limit") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const std::string exchange : {"columns", "rows", "allgather"}) {
    const EmbeddingConfig config = make_config(exchange, 3000, 256, 1500);
    INFO(exchange);
    CHECK(train_table(comm, config, 2) == train_on_virtual_ranks(comm.size(), comm.rank(), config, 2));
  }
}

TEST_CASE("several tables at once over MPI, in different orders on different ranks") {
  const Communicator comm(MPI_COMM_WORLD);
  const EmbeddingConfig config = make_config("columns", 500, 16, 60);
  const TrainedTable right = train_table(comm, config, 6);
  std::vector<EmbeddingTable> tables;
  for (int i = 0; i < 3; ++i) tables.emplace_back(comm, config);
  for (int t = 0; t < 6; ++t) {
    const TableBatch batch = make_table_batch(config, comm.rank(), t), next = make_table_batch(config, comm.rank(), t + 1);
    std::vector<std::vector<float>> vectors(3, room_for(tables[0], batch));
    std::vector<Operation> lookups;
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(i + comm.rank() + t) % 3;
      lookups.push_back(tables[at].lookup(std::span<const std::int64_t>(batch.ids), vectors[at]));
    }
    for (Operation& lookup : lookups) lookup.wait();
    for (const auto& of_table : vectors) CHECK(same_bits(of_table, right.vectors[static_cast<std::size_t>(t)]));
    for (int i = 0; i < 3; ++i) {
      EmbeddingTable& table = tables[static_cast<std::size_t>(2 * comm.rank() + i) % 3];
      table.prefetch(std::span<const std::int64_t>(next.ids));
      table.update(batch.gradients);
    }
  }
  for (EmbeddingTable& table : tables) CHECK(same_bits(all_rows(table), right.values));
}

TEST_CASE("a wrong id on one rank is the same error over MPI") {
  const Communicator comm(MPI_COMM_WORLD);
  EmbeddingTable table(comm, make_config("columns", 10, 4, 5));
  const int last = comm.size() - 1;
  const std::vector<std::int32_t> ids = {0, comm.rank() == last ? 10 : 9};
  std::vector<float> vectors(8);
  CHECK_THROWS_WITH(table.lookup(std::span<const std::int32_t>(ids), vectors).wait(),
                    "table 'embedding': rank " + std::to_string(last) + " looks up id 10 at position 1: ids go from 0 to 9");
}

}  // namespace weir::test
