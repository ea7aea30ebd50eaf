// test_device_table.cpp: tables in CUDA memory hold, deliver and learn the same as tables in host memory, bit for bit, on virtual
// ranks that share a GPU. They refuse invalid calls.
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/gpu_table.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

struct Case {
  EmbeddingConfig config;
  int ranks = 1;
  Prefetch prefetch = Prefetch::right;
  IdsIn ids = IdsIn::host;
  RankOptions options{};
  int steps = 5;

  [[nodiscard]] std::string text() const { return text_of(config, ranks, prefetch, options.machine); }
};

std::vector<std::int64_t> announced(const Case& c, int rank, int step) {
  std::vector<std::int64_t> ids = make_table_batch(c.config, rank, step).ids;
  if (c.prefetch == Prefetch::wrong_on_one && rank == c.ranks / 2)
    for (std::int64_t& id : ids) id = (id + 1) % c.config.rows;
  return ids;
}

/// Trains both tables step by step. Returns the trained table.
std::vector<float> compare(const Case& c) {
  RankCheck check;
  std::vector<float> trained;
  run_ranks(
      c.ranks,
      [&](Communicator& comm) {
        EmbeddingTable on_host(comm, c.config);
        GpuTable on_gpu(comm, c.config);
        const int rank = comm.rank();
        for (int t = 0; t < c.steps; ++t) {
          const std::string where = " of step " + std::to_string(t) + " rank " + std::to_string(rank);
          const TableBatch batch = make_table_batch(c.config, rank, t);
          std::vector<float> vectors = room_for(on_host, batch);
          on_host.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
          check.that(same_bits(on_gpu.lookup(batch.ids, c.ids), vectors), "vectors" + where);
          if (c.prefetch != Prefetch::never) {
            const std::vector<std::int64_t> next = announced(c, rank, t + 1);
            on_host.prefetch(std::span<const std::int64_t>(next));
            on_gpu.prefetch(next, c.ids);
          }
          on_host.update(batch.gradients);
          on_gpu.update(batch.gradients);
          const EmbeddingStatistics &a = on_host.statistics(), &b = on_gpu.table.statistics();
          check.that(a.tokens == b.tokens && a.distinct_rows == b.distinct_rows && a.prefetched == b.prefetched &&
                         a.lookup_bytes_sent == b.lookup_bytes_sent,
                     "statistics" + where);
        }
        const std::vector<float> right = all_rows(on_host), values = all_rows(on_gpu.table);
        check.that(same_bits(values, right), "trained table");
        const EmbeddingStatistics &a = on_host.statistics(), &b = on_gpu.table.statistics();
        check.that(
            a.prior_rows == b.prior_rows && a.updated_rows == b.updated_rows && a.gradient_bytes_sent == b.gradient_bytes_sent,
            "statistics of the update");
        if (rank == 0) trained = values;
      },
      c.options);
  INFO(c.text());
  CHECK(check.failure() == "");
  return trained;
}

/// Runs one step with ids in GPU memory. Returns the vectors.
std::vector<float> train_step(EmbeddingTable& table, const TableBatch& batch, void* lookups, void* updates) {
  const Upload<std::int64_t> ids(batch.ids, lookups);
  const Upload<float> there(room_for(table, batch), lookups);
  table.lookup(std::span<const std::int64_t>(ids.there()), there.there(), lookups).wait();
  std::vector<float> vectors = there.fetch();
  const Upload<float> gradients(batch.gradients, updates);
  table.update(gradients.there(), updates);
  return vectors;
}

}  // namespace

TEST_CASE("every exchange, in CUDA memory as in host memory", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    for (const int ranks : {1, 3, 4}) {
      for (const auto& [rows, width, largest] : {std::tuple{1, 1, 1}, {2, 3, 5}, {37, 7, 20}, {200, 33, 40}, {60, 16, 25}}) {
        for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam}) {
          Case c{make_table_config(exchange, rows, width, largest), ranks};
          c.config.optimizer = optimizer;
          c.prefetch = static_cast<Prefetch>((ranks + width + static_cast<int>(optimizer)) % 3);
          c.options.seed = static_cast<std::uint64_t>(ranks);
          compare(c);
        }
      }
    }
  });
}

TEST_CASE("tables in CUDA memory on machines with several nodes", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    for (const auto& [machine, ranks] : {std::pair{"nodes:3,1,2", 6}, {"node:2 rank:2", 4}}) {
      for (const Routing routing : {Routing::direct, Routing::by_node}) {
        Case c{make_table_config(exchange, 50, 13, 30), ranks};
        c.config.routing = routing;
        c.options.machine = machine;
        compare(c);
      }
    }
  });
}

TEST_CASE("narrow values, in CUDA memory as in host memory", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
      for (const int width : {7, 16}) {
        for (const int ranks : {1, 3, 4}) {
          Case c{make_table_config(exchange, 40, width, 25), ranks};
          c.config.wire_values = values;
          c.config.optimizer = Optimizer::adagrad;
          compare(c);
        }
      }
    }
  });
}

TEST_CASE("prior and delayed rows in CUDA memory train the table that one update trains", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    std::vector<std::vector<float>> tables;
    for (const Prefetch prefetch : {Prefetch::never, Prefetch::right, Prefetch::wrong_on_one}) {
      Case c{make_table_config(exchange, 60, 6, 40), 4, prefetch};
      c.config.optimizer = Optimizer::adam;
      c.config.delayed_priority = -1;
      c.steps = 8;
      tables.push_back(compare(c));
    }
    for (const auto& table : tables) CHECK(same_bits(table, tables[0]));
  });
}

TEST_CASE("ids in GPU memory", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    for (const Prefetch prefetch : {Prefetch::never, Prefetch::right}) {
      Case c{make_table_config(exchange, 37, 5, 20), 3, prefetch, IdsIn::gpu};
      c.options.seed = 3;
      compare(c);
    }
  });
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    GpuTable on_gpu(comm, make_table_config("columns", 37, 5, 20));
    const std::vector<std::int32_t> narrow{3, 36, 3};
    const std::vector<std::int64_t> wide{3, 36, 3};
    on_gpu.prefetch(narrow, comm.rank() == 1 ? IdsIn::host : IdsIn::gpu);
    const std::vector<float> vectors = on_gpu.lookup(narrow, comm.rank() == 2 ? IdsIn::host : IdsIn::gpu);
    check.that(on_gpu.table.statistics().prefetched, "ids of a prefetch and of a lookup in different memory");
    check.that(same_bits(vectors, on_gpu.lookup(wide, IdsIn::host)), "32-bit and 64-bit ids");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("lookups and updates on the default stream, and on streams of their own", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const EmbeddingConfig config = make_table_config(exchange, 37, 5, 20);
      const cuda::Stream lookups, updates;
      EmbeddingTable on_host(comm, config), on_default(comm, in_cuda_memory(config)), on_two(comm, in_cuda_memory(config));
      for (int t = 0; t < 5; ++t) {
        const TableBatch batch = make_table_batch(config, comm.rank(), t);
        std::vector<float> vectors = room_for(on_host, batch);
        on_host.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
        on_host.update(batch.gradients);
        check.that(same_bits(train_step(on_default, batch, nullptr, nullptr), vectors), "vectors on the default stream");
        check.that(same_bits(train_step(on_two, batch, lookups.get(), updates.get()), vectors), "vectors on a stream of their own");
      }
      const std::vector<float> right = all_rows(on_host);
      check.that(same_bits(all_rows(on_default), right), "the table trained on the default stream");
      check.that(same_bits(all_rows(on_two), right), "the table trained on two streams");
    });
    INFO(exchange);
    CHECK(check.failure() == "");
  });
}

TEST_CASE("rows are imported and exported from host memory, with a batch looked up in between", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      EmbeddingConfig config = make_table_config(exchange, 50, 4, 8);
      config.wire_values = WireValues::bfloat16;
      EmbeddingTable on_host(comm, config);
      GpuTable on_gpu(comm, config);
      const TableBatch batch = make_table_batch(config, comm.rank(), 0);
      std::vector<float> vectors = room_for(on_host, batch);
      on_host.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
      check.that(same_bits(on_gpu.lookup(batch.ids, IdsIn::host), vectors), "vectors");
      // Rank r writes rows [10 r, 10 r + 25). In overlaps the highest rank wins.
      std::vector<float> mine(25 * 4);
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = 0.1F * static_cast<float>(comm.rank() + 1) + static_cast<float>(i);
      for (EmbeddingTable* table : {&on_host, &on_gpu.table}) table->import_rows(10 * comm.rank(), 25, mine);
      check.that(same_bits(all_rows(on_gpu.table), all_rows(on_host)), "imported rows");
      on_host.update(batch.gradients);
      on_gpu.update(batch.gradients);
      check.that(same_bits(all_rows(on_gpu.table), all_rows(on_host)), "the batch looked up before, updated");
    });
    INFO(exchange);
    CHECK(check.failure() == "");
  });
}

TEST_CASE("no heap allocation in the steady state of tables in CUDA memory", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      const EmbeddingConfig config = make_table_config(exchange, 60, 8, 20);
      GpuTable on_gpu(comm, config);
      const cuda::DeviceArray<float> vectors(config.largest_batch * config.width);
      const cuda::DeviceArray<std::int64_t> ids(config.largest_batch);
      std::vector<TableBatch> batches;
      for (int t = 0; t <= 60; ++t) batches.push_back(make_table_batch(config, comm.rank(), t));
      std::int64_t before = 0;
      for (std::size_t t = 0; t < 60; ++t) {
        if (t == 30) before = allocations_of_this_thread();
        const TableBatch& batch = batches[t];
        const std::span<float> mine(vectors.data(), batch.gradients.size());
        cuda::copy(ids.data(), batch.ids.data(), static_cast<std::int64_t>(batch.ids.size() * 8), on_gpu.stream.get());
        on_gpu.table.lookup(std::span<const std::int64_t>(ids.data(), batch.ids.size()), mine, on_gpu.stream.get()).wait();
        on_gpu.table.prefetch(std::span<const std::int64_t>(batches[t + 1].ids));
        on_gpu.table.update(mine, on_gpu.stream.get());
      }
      check.at_most(allocations_of_this_thread() - before, std::int64_t{0}, "allocations");
    });
    INFO(exchange);
    CHECK(check.failure() == "");
  });
}

}  // namespace weir::test
