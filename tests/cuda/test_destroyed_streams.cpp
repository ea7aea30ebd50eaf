// test_destroyed_streams.cpp: a destroyed stream is the same error on all ranks. Runs only on the SIMT machine, because CUDA itself
// may crash on such a stream.
#include "support/catch.hpp"
#include "support/gpu_table.hpp"
#include "support/inproc_ranks.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

void* destroyed_stream() {
  const cuda::Stream stream;
  return stream.get();
}

constexpr const char* refusal = "the stream that rank 1 gave does not work";

}  // namespace

TEST_CASE("a plan refuses a stream that was destroyed", "[device_plan]") {
  REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, refusal, [](Communicator& comm) {
            AllreducePlan plan(comm, {.count = 100, .memory = MemorySpace::cuda});
            Upload<float> there(std::vector<float>(100), nullptr);
            plan.run(there.data(), comm.rank() == 1 ? destroyed_stream() : nullptr);
          }) == "");
}

TEST_CASE("a table refuses a stream that was destroyed, and stays usable", "[device_table]") {
  const std::vector<std::int64_t> ids{1, 7, 1};
  const std::vector<float> vectors(12);
  const auto refuse = [&](const char* what, const std::function<void(GpuTable&, void*)>& call) {
    SameErrors errors(3);
    run_ranks(3, [&](Communicator& comm) {
      GpuTable on_gpu(comm, make_table_config("columns", 20, 4, 6));
      const std::vector<float> before = on_gpu.lookup(ids, IdsIn::host);
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, std::string("table 'words': ") + refusal,
                    [&] { call(on_gpu, comm.rank() == 1 ? destroyed_stream() : on_gpu.stream.get()); });
      errors.check().that(same_bits(on_gpu.lookup(ids, IdsIn::gpu), before), "afterwards");
      on_gpu.update(before).wait();
    });
    INFO(what);
    REQUIRE(errors.failure() == "");
  };
  refuse("lookup", [&](GpuTable& on_gpu, void* stream) {
    const Upload<float> there(vectors, on_gpu.stream.get());
    on_gpu.table.lookup(ids, {there.data(), vectors.size()}, stream).wait();
  });
  refuse("update", [&](GpuTable& on_gpu, void* stream) {
    const Upload<float> there(vectors, on_gpu.stream.get());
    on_gpu.table.update({there.data(), vectors.size()}, stream).wait();
  });
  refuse("prefetch", [&](GpuTable& on_gpu, void* stream) {
    const Upload<std::int64_t> there(ids, on_gpu.stream.get());
    on_gpu.table.prefetch(std::span<const std::int64_t>(there.there()), stream).wait();
  });
}

}  // namespace weir::test
