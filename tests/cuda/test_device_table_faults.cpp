// test_device_table_faults.cpp: how tables in CUDA memory behave if CUDA fails or never finishes. Runs only on the emulated
// machine, which can inject faults.
#include <cuda_runtime.h>

#include <atomic>

#include "support/catch.hpp"
#include "support/gpu_table.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

constexpr int wrong_rank = 1;

/// A table, and the arguments of its calls.
struct Calls {
  explicit Calls(const Communicator& comm) : table(comm, in_cuda_memory(make_table_config("columns", 20, 4, 6))) {}

  void lookup() { table.lookup(std::span<const std::int64_t>(ids.there()), vectors.there(), stream.get()).wait(); }
  void prefetch() { table.prefetch(std::span<const std::int64_t>(ids.there()), stream.get()).wait(); }
  void update() { table.update(vectors.there(), stream.get()).wait(); }

  cuda::Stream stream;
  Upload<std::int64_t> ids{std::vector<std::int64_t>{1, 7, 1}, stream.get()};
  Upload<float> vectors{std::vector<float>(12, 0.5F), stream.get()};
  EmbeddingTable table;
};

}  // namespace

TEST_CASE("where CUDA fails in a call on one rank, all ranks hear of it, and the call is not made again", "[device_table]") {
  const auto refuse = [](const std::string& name, void (Calls::*call)(), int put_to_fail) {
    SameErrors errors(3);
    run_ranks(3, [&](Communicator& comm) {
      Calls calls(comm);
      calls.lookup();
      if (comm.rank() == wrong_rank) simt::errors.put_to_fail = put_to_fail;
      errors.expect(comm.rank(), WEIR_ERR_DEVICE, "table 'words': CUDA failed on rank 1", [&] { (calls.*call)(); });
      errors.check().that(simt::errors.put_to_fail == 0, "nothing has failed");
      errors.check().that(cudaGetLastError() == cudaSuccess, "an error that has been dealt with is CUDA's last one");
      errors.expect(comm.rank(), WEIR_ERR_STATE, "'words: " + name + "' cannot run again", [&] { (calls.*call)(); });
    });
    INFO(name << ", put " << put_to_fail);
    REQUIRE(errors.failure() == "");
  };
  for (const int put : {2, 3}) {  // the first shows whether the stream works
    refuse("lookup", &Calls::lookup, put);
    refuse("prefetch", &Calls::prefetch, put);
    refuse("update", &Calls::update, put);
  }
}

TEST_CASE("ids that a GPU never delivers end in a timeout on every rank, and the table can be destroyed", "[device_table]") {
  const std::vector<std::int64_t> first{1, 7, 1};
  for (const int ranks_that_update : {0, 2}) {  // of 3: their update waits for the third, and its deadline comes first
    std::atomic<bool> goes_on = false;
    RankCheck check;
    const auto run = [&](Communicator& comm) {
      const cuda::Stream stream;
      const Upload<std::int64_t> ids(first, stream.get());
      const Upload<float> vectors(std::vector<float>(12), stream.get());
      try {
        EmbeddingTable table(comm, in_cuda_memory(make_table_config("columns", 20, 4, 6)));
        table.lookup(std::span(first), vectors.there(), stream.get()).wait();
        set_timeout(comm, 1);
        if (comm.rank() < ranks_that_update) table.update(vectors.there(), stream.get());
        if (comm.rank() == wrong_rank) simt::put(static_cast<cudaStream_t>(stream.get()), [&goes_on] { return goes_on.load(); });
        table.lookup(std::span<const std::int64_t>(ids.there()), vectors.there(), stream.get()).wait();
        check.that(false, "no error");
      } catch (const Error& error) {
        const std::string text = error.what();
        check.that(error.status() == WEIR_ERR_TIMEOUT, text);
        const std::string part = comm.rank() == wrong_rank ? "words: ids, run 1: wait_for_ids; awaits the GPU" : "words: lookup";
        check.that(text.find(part) != std::string::npos, text);
      }
      if (comm.rank() == wrong_rank) goes_on = true;
      cuda::synchronize(stream.get());  // the copy is made, to memory that is still there
    };
    run_ranks(3, run);
    INFO(ranks_that_update << " ranks update");
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
