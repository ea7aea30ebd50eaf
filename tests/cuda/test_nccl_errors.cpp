// test_nccl_errors.cpp: how plans behave if NCCL is missing or fails. Runs only on the emulated machine, which can inject
// faults.
#include <nccl.h>

#include "cuda/nccl.hpp"
#include "cuda/nccl_library.hpp"
#include "cuda/runtime.hpp"
#include "support/catch.hpp"
#include "support/device_arrays.hpp"
#include "support/device_runs.hpp"
#include "support/gpu_copier.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using Fault = simt::Nccl::Fault;

AllreduceConfig dense(const std::string& algorithm = "dense_nccl") {
  return {.count = 1000, .memory = MemorySpace::cuda, .algorithm = algorithm, .name = "g"};
}

/// Sets up NCCL on every rank, then makes a plan.
void refuse(const std::string& part, const std::function<void(int)>& set_up) {
  for (const std::string algorithm : {"dense_nccl", "dense_torus2d"}) {
    INFO(algorithm << ": " << part);
    REQUIRE(unlike_errors(4, WEIR_ERR_UNSUPPORTED, part,
                          [&](Communicator& comm) {
                            const cuda::OnDevice on(comm.rank());
                            set_up(comm.rank());
                            AllreducePlan plan(comm, dense(algorithm));
                          },
                          {.machine = "node:2 rank:2"}) == "");
  }
}

}  // namespace

TEST_CASE("why there is no NCCL", "[nccl]") {
  CHECK(cuda::reason_without_nccl("no such file", 0) == "libnccl.so.2 cannot be loaded: no such file: install libnccl2");
  CHECK(cuda::reason_without_nccl(nullptr, 0) == "libnccl.so.2 does not say which version it is: install libnccl2 anew");
  CHECK(cuda::reason_without_nccl(nullptr, 22105) ==
        "NCCL 2.21.5 is too old: 2.27.3 is needed, the first whose nonblocking communicators can be used by several plans of one "
        "thread");
  CHECK_FALSE(cuda::reason_without_nccl(nullptr, 22702).empty());
  CHECK(cuda::reason_without_nccl(nullptr, 22703).empty());
  CHECK(cuda::nccl_version_text(22809) == "2.28.9");
}

TEST_CASE("dense plans in CUDA memory are refused on all ranks where one cannot take part", "[nccl]") {
  refuse("rank 1: libnccl.so.2 cannot be loaded: no such file: install libnccl2", [](int rank) {
    if (rank == 1) simt::nccl.load_error = "no such file";
  });
  refuse("rank 3: NCCL 2.26.5 is too old: 2.27.3 is needed", [](int rank) {
    if (rank == 3) simt::nccl.version = 22605;
  });
  refuse("rank 2 has NCCL 2.27.5 and rank 0 2.28.9", [](int rank) {
    if (rank == 2) simt::nccl.version = 22705;
  });
}

TEST_CASE("an error while some ranks connect is an error of all, and ends what is connected", "[nccl]") {
  for (const auto& [fault, status, part] :
       {std::tuple{Fault::no_connection, WEIR_ERR_DEVICE, "NCCL cannot connect GPUs; rank 3: connecting GPUs failed"},
        {Fault::never_connects, WEIR_ERR_TIMEOUT, "NCCL cannot connect GPUs; rank 2: NCCL has not connected it to its peers"}}) {
    const int before = simt::nccl_communicators();
    SameErrors errors(4);
    run_ranks(4,
              [&](Communicator& comm) {
                const cuda::OnDevice on(comm.rank());
                AllreducePlan earlier(comm, dense());
                set_timeout(comm, 0.6);
                if (comm.rank() == 3) simt::nccl.fault = fault;  // ranks 0 and 1 are another group
                errors.expect(comm.rank(), status, part, [&] { AllreducePlan(comm, dense("dense_torus2d")); });
                Upload<float> there(std::vector<float>(1000, 1), nullptr);
                errors.expect(comm.rank(), WEIR_ERR_STATE, "NCCL was aborted", [&] { earlier.run(there.data(), nullptr); });
              },
              {.machine = "node:2 rank:2"});
    REQUIRE(errors.failure() == "");
    REQUIRE(simt::nccl_communicators() == before);
  }
}

TEST_CASE("a dense_torus2d that is stuck across nodes, with work in the nodes behind it", "[nccl]") {
  const int before = simt::nccl_communicators();
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              const cuda::OnDevice on(comm.rank());
              AllreducePlan plan(comm, dense("dense_torus2d"));
              Upload<float> there(std::vector<float>(1000, 1), nullptr);
              plan.run(there.data(), nullptr);
              set_timeout(comm, 0.6);
              simt::nccl.fault = Fault::stuck;
              simt::nccl.calls_before_fault = 1;
              try {
                plan.run(there.data(), nullptr);
                check.that(false, "no error");
              } catch (const Error& error) {
                check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
              }
              check.that(cuda::current_device() == comm.rank(), "another GPU");
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
  REQUIRE(simt::nccl_communicators() == before);
}

TEST_CASE("NCCL does not come beside plans that hand GPU memory to MPI", "[nccl]") {
  constexpr const char* reason =
      "plans made before hand GPU memory to MPI, which must not work beside NCCL: make plans that use NCCL first";
  SameErrors errors(4);
  run_ranks(4,
            [&](Communicator& comm) {
              const cuda::OnDevice on(comm.rank());
              const AllreduceConfig sparse{.count = 1000, .memory = MemorySpace::cuda, .algorithm = "oktopk"};
              AllreduceConfig sharded = sparse;
              sharded.algorithm = "hi_oktopk";
              AllreducePlan direct(comm, sparse);
              errors.expect(comm.rank(), WEIR_ERR_UNSUPPORTED, reason, [&] { AllreducePlan(comm, dense()); });
              errors.check().that(AllreducePlan(comm, sharded).explanation().find(reason) != std::string::npos, "not said");
              errors.check().that(simt::nccl_communicators() == 0, "communicators for nothing");
            },
            {.machine = "node:2 rank:2", .make_copier = [] { return std::make_unique<GpuCopier>(); }});
  run_ranks(4,
            [&](Communicator& comm) {
              const cuda::OnDevice on(comm.rank());
              AllreducePlan first(comm, dense());
              AllreducePlan staged(comm, {.count = 1000, .memory = MemorySpace::cuda, .algorithm = "oktopk"});
              AllreducePlan second(comm, dense("dense_torus2d"));
            },
            {.machine = "node:2 rank:2", .make_copier = [] { return std::make_unique<GpuCopier>(); }});
  REQUIRE(errors.failure() == "");
}

TEST_CASE("without NCCL, what shards within nodes runs flat in CUDA memory", "[nccl]") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              const cuda::OnDevice on(comm.rank());
              if (comm.rank() == 1) simt::nccl.load_error = "no such file";
              AllreducePlan flat(comm, as_in_cuda_memory({.count = 3001, .algorithm = "oktopk"}));
              AllreducePlan plan(comm, {.count = 3001, .memory = MemorySpace::cuda, .algorithm = "hi_oktopk"});
              for (int t = 0; t < 3; ++t)
                run_both(flat, plan, make_input<float>(Input::integers, 3001, comm.rank(), 4, t), true, check, "");
              check.that(
                  plan.explanation().find(
                      "runs flat, since in CUDA memory sums in nodes need NCCL on all ranks; rank 1: libnccl") != std::string::npos,
                  plan.explanation());
              check.that(simt::nccl_communicators() == 0, "communicators for nothing");
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("ranks that share a GPU", "[nccl]") {
  REQUIRE(unlike_errors(4, WEIR_ERR_UNSUPPORTED, "ranks 2 and 3 share the GPU at 0000:02:00.0, which NCCL does not allow",
                        [](Communicator& comm) {
                          const cuda::OnDevice on(std::min(comm.rank(), 2));
                          AllreducePlan plan(comm, dense());
                        },
                        {.machine = "node:2 rank:2"}) == "");
  REQUIRE(unlike_errors(2, WEIR_ERR_UNSUPPORTED, "that of earlier plans at 0000:00:00.0: make another communicator",
                        [](Communicator& comm) {
                          std::optional<AllreducePlan> first;
                          {
                            const cuda::OnDevice on(comm.rank());
                            first.emplace(comm, dense());
                          }
                          const cuda::OnDevice on(comm.rank() + 4);
                          AllreducePlan plan(comm, dense());
                        }) == "");
}

TEST_CASE("an error of NCCL aborts its communicators and ends all plans on them, the same on all ranks", "[nccl]") {
  for (const std::string algorithm : {"dense_nccl", "dense_torus2d"}) {
    for (const auto& [fault, status, part] : {std::tuple{Fault::remote_error, WEIR_ERR_DEVICE, "remote process exited"},
                                              {Fault::never_comes, WEIR_ERR_TIMEOUT, "/nccl"},
                                              {Fault::stuck, WEIR_ERR_TIMEOUT, "/nccl"}}) {
      if (left_out(2)) continue;
      INFO(algorithm << ", fault " << static_cast<int>(fault));
      const int before = simt::nccl_communicators();
      RankCheck check;
      run_ranks(2, [&](Communicator& comm) {
        const cuda::OnDevice on(comm.rank());
        AllreducePlan broken(comm, dense(algorithm)), other(comm, dense());
        Upload<float> there(std::vector<float>(1000, 1), nullptr);
        const auto expect = [&](weir_status wanted, const std::string& text, const std::function<void()>& call) {
          try {
            call();
            check.that(false, "no error instead of " + text);
          } catch (const Error& error) {
            check.that(error.status() == wanted && std::string(error.what()).find(text) != std::string::npos, error.what());
          }
        };
        broken.run(there.data(), nullptr);
        set_timeout(comm, 0.6);
        if (comm.rank() == 1) simt::nccl.fault = fault;
        expect(status, part, [&] { broken.run(there.data(), nullptr); });
        check.that(simt::nccl_communicators() < before + 2 * 2, "not aborted");
        expect(WEIR_ERR_STATE, "cannot run again", [&] { broken.run(there.data(), nullptr); });
        expect(WEIR_ERR_STATE, "NCCL was aborted on rank 0 after an error", [&] { other.run(there.data(), nullptr); });
        expect(WEIR_ERR_UNSUPPORTED, "rank 0: NCCL was aborted after an error", [&] { AllreducePlan(comm, dense()); });
      });
      REQUIRE(check.failure() == "");
      REQUIRE(simt::nccl_communicators() == before);
    }
  }
}

TEST_CASE("a rank that does not come to a dense run in CUDA memory", "[nccl]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const cuda::OnDevice on(comm.rank());
    AllreducePlan plan(comm, dense());
    Upload<float> there(std::vector<float>(1000, 1), nullptr);
    set_timeout(comm, 0.6);
    if (comm.rank() == 2) return;
    try {
      plan.run(there.data(), nullptr);
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
