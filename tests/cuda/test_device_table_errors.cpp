// test_device_table_errors.cpp: memory, streams and configurations that tables in CUDA memory must refuse on all ranks.
#include <optional>

#include "support/catch.hpp"
#include "support/gpu_table.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {

TEST_CASE("wrong memory of tables is the same error on all ranks, and the table stays usable", "[device_table]") {
  const std::vector<std::int64_t> ids{1, 7, 1};
  std::vector<float> here(12);
  const auto refuse = [&](const std::string& part, const std::function<void(GpuTable&, bool)>& call) {
    SameErrors errors(3);
    run_ranks(3, [&](Communicator& comm) {
      GpuTable on_gpu(comm, make_table_config("columns", 20, 4, 6));
      const std::vector<float> before = on_gpu.lookup(ids, IdsIn::host);
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "table 'words': " + part, [&] { call(on_gpu, comm.rank() == 1); });
      errors.check().that(same_bits(on_gpu.lookup(ids, IdsIn::gpu), before), "afterwards");
      on_gpu.update(before).wait();
    });
    INFO(part);
    REQUIRE(errors.failure() == "");
  };
  const auto lookup = [&](GpuTable& on_gpu, std::span<const std::int64_t> wanted, float* wrong) {
    const Upload<float> there(here, on_gpu.stream.get());
    on_gpu.table.lookup(wanted, {wrong != nullptr ? wrong : there.data(), here.size()}, on_gpu.stream.get()).wait();
  };
  const auto update = [&](GpuTable& on_gpu, float* wrong) {
    const Upload<float> there(here, on_gpu.stream.get());
    on_gpu.table.update({wrong != nullptr ? wrong : there.data(), here.size()}, on_gpu.stream.get()).wait();
  };
  refuse("the array for vectors of rank 1 is in host memory, and the table is for CUDA memory",
         [&](GpuTable& on_gpu, bool wrong) { lookup(on_gpu, ids, wrong ? here.data() : nullptr); });
  refuse("the array of gradients of rank 1 is in host memory",
         [&](GpuTable& on_gpu, bool wrong) { update(on_gpu, wrong ? here.data() : nullptr); });
  refuse("rank 1 exports with an array in GPU memory: it must be in host memory", [&](GpuTable& on_gpu, bool wrong) {
    const Upload<float> there(here, on_gpu.stream.get());
    std::vector<float> mine(here);
    on_gpu.table.export_rows(0, 3, wrong ? there.there() : std::span(mine));
  });
  if (cuda::device_count() < 2) {
    WARN("one GPU: memory of another one not tested");
    return;
  }
  refuse("the array of ids of rank 1 is in the memory of another GPU", [&](GpuTable& on_gpu, bool wrong) {
    const Upload<std::int64_t> there(ids, on_gpu.stream.get());
    std::optional<Upload<std::int64_t>> elsewhere;
    {
      const cuda::OnDevice other(1);
      elsewhere.emplace(ids, nullptr);
    }
    lookup(on_gpu, (wrong ? *elsewhere : there).there(), nullptr);
  });
}

TEST_CASE("GPU memory and streams are refused by tables in host memory", "[device_table]") {
  const std::vector<std::int64_t> ids{1, 7, 1};
  const auto refuse = [&](const std::string& part, const std::function<void(EmbeddingTable&, bool)>& call) {
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, "table 'words': " + part, [&](Communicator& comm) {
              EmbeddingTable table(comm, make_table_config("columns", 20, 4, 6));
              call(table, comm.rank() == 1);
            }) == "");
  };
  const std::vector<float> zeros(12);
  refuse("the array for vectors of rank 1 is in GPU memory, and the table is for host memory",
         [&](EmbeddingTable& table, bool wrong) {
           const Upload<float> there(zeros, nullptr);
           std::vector<float> here(12);
           table.lookup(std::span(ids), wrong ? there.there() : std::span(here)).wait();
         });
  refuse("the array of ids of rank 1 is in GPU memory", [&](EmbeddingTable& table, bool wrong) {
    const Upload<std::int64_t> there(ids, nullptr);
    table.prefetch(wrong ? std::span<const std::int64_t>(there.there()) : std::span(ids)).wait();
  });
  refuse("rank 1 gave a stream", [&](EmbeddingTable& table, bool wrong) {
    const cuda::Stream stream;
    std::vector<float> here(12);
    table.lookup(std::span(ids), here).wait();
    table.update(here, wrong ? stream.get() : nullptr).wait();
  });
}

TEST_CASE("a silent peer ends in a timeout on every survivor, and a table in CUDA memory can be destroyed", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) {
    for (const std::int64_t after : {20, 47}) {
      if (left_out(4)) continue;
      RankCheck check;
      run_ranks(4,
                [&](Communicator& comm) {
                  const EmbeddingConfig config = make_table_config(exchange, 20, 4, 6);
                  try {
                    GpuTable on_gpu(comm, config);
                    for (int t = 0; t < 100; ++t) {
                      const TableBatch batch = make_table_batch(config, comm.rank(), t);
                      on_gpu.lookup(batch.ids, IdsIn::gpu);
                      on_gpu.prefetch(make_table_batch(config, comm.rank(), t + 1).ids, IdsIn::host);
                      on_gpu.update(batch.gradients);
                    }
                    check.that(false, "no error");
                  } catch (const Error& error) {
                    check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
                  }
                },
                {.fault = {.rank = 2, .after = after}, .settings = {.timeout_seconds = 0.5}});
      INFO(exchange << " after " << after);
      CHECK(check.failure() == "");
    }
  });
}

TEST_CASE("tables that CUDA memory cannot have are refused on all ranks", "[device_table]") {
  const auto refuse = [](weir_status status, const std::string& part, const std::function<void(EmbeddingConfig&, int)>& change) {
    REQUIRE(unlike_errors(3, status, "table 'words'" + part, [&](Communicator& comm) {
              EmbeddingConfig config = in_cuda_memory(make_table_config("columns", 20, 4, 6));
              change(config, comm.rank());
              EmbeddingTable table(comm, config);
            }) == "");
  };
  refuse(WEIR_ERR_ARGUMENT, ", rank 0: exchange is dense_allreduce: in CUDA memory only rows travel",
         [](EmbeddingConfig& config, int) { config.exchange = "dense_allreduce"; });
  refuse(WEIR_ERR_ARGUMENT, ", rank 1: memory is 7: it must be host (0) or cuda (1)", [](EmbeddingConfig& config, int rank) {
    if (rank == 1) config.memory = static_cast<MemorySpace>(7);
  });
  refuse(WEIR_ERR_MISMATCH, ": ranks disagree about memory: rank 0 has cuda, rank 1 has host",
         [](EmbeddingConfig& config, int rank) {
           if (rank == 1) config.memory = MemorySpace::host;
         });
  if (cuda::describe(0).bytes > std::int64_t{1} << 33) {
    WARN("too much GPU memory to run out of it");
    return;
  }
  refuse(WEIR_ERR_MEMORY, ": rank 0 has not enough memory for it", [](EmbeddingConfig& config, int) {
    config.rows = 400000000;
    config.width = 30;
  });
}

}  // namespace weir::test
