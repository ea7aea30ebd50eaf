// test_device_plan.cpp: plans in CUDA memory deliver and keep the same as plans in host memory, bit for bit, on virtual ranks that
// share a GPU. They refuse invalid calls.
#include <cuda_runtime.h>

#include <limits>
#include <weir/fusion.hpp>

#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "kernels/narrow.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/device_arrays.hpp"
#include "support/device_runs.hpp"
#include "support/gpu_copier.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/kernel_data.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

/// Messages directly from GPU memory, or staged.
enum class Path { staged, direct };

template <class T>
void compare(int ranks, const AllreduceConfig& config, Input input, int iterations, Path path = Path::staged,
             const std::string& machine = "") {
  if (left_out()) return;
  RankCheck check;
  RankOptions options{.seed = 5, .machine = machine.empty() ? "node:" + std::to_string(ranks) + " rank:1" : machine};
  if (path == Path::direct) options.make_copier = [] { return std::make_unique<GpuCopier>(); };
  run_ranks(
      ranks,
      [&](Communicator& comm) {
        AllreduceConfig of_gpu = config;
        of_gpu.memory = MemorySpace::cuda;
        AllreducePlan on_host(comm, as_in_cuda_memory(config)), on_gpu(comm, of_gpu);
        for (int t = 0; t < iterations; ++t) {
          auto gradient = make_input<T>(input, config.count, comm.rank(), ranks, t);
          if (config.non_finite != NonFinite::error && t % 3 == 1 && !gradient.empty())
            gradient[gradient.size() / 2] = std::numeric_limits<T>::infinity();
          run_both(on_host, on_gpu, gradient, t % 2 == 0, check,
                   "rank " + std::to_string(comm.rank()) + ", iteration " + std::to_string(t) + ": ");
        }
      },
      options);
  INFO((path == Path::direct ? "direct, ranks " : "staged, ranks ")
       << ranks << ", count " << config.count << ", " << config.algorithm << ", " << input_name(input));
  REQUIRE(check.failure() == "");
}

}  // namespace

TEMPLATE_TEST_CASE("every algorithm, in CUDA memory as in host memory", "[device_plan]", float, double) {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    for (const int ranks : {1, 3, 4}) {
      for (const std::int64_t n : {0, 1, 2, 5001}) {
        const Path path = ranks == 3 ? Path::staged : Path::direct;
        compare<TestType>(ranks, {.count = n, .type = data_type_of<TestType>, .algorithm = std::string(algorithm.name)},
                          Input::heavy_tailed, 3, path);
      }
    }
  }
}

TEST_CASE("by switch group, in CUDA memory as in host memory", "[device_plan]") {
  for (const std::string machine : {"switch:2 node:2 rank:1", "switches:1,3 rank:1"}) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
      for (const std::int64_t n : {0, 1, 3, 5001}) {
        for (const Input input : {Input::heavy_tailed, Input::elsewhere})
          compare<float>(4, {.count = n, .algorithm = "hi_oktopk", .wire_values = values}, input, 4, Path::direct, machine);
      }
    }
    compare<float>(4, {.count = 3001, .algorithm = "hi_oktopk", .threshold = "reuse"}, Input::jumping, 4, Path::staged, machine);
  }
}

TEST_CASE("all inputs and thresholds, in CUDA memory as in host memory", "[device_plan]") {
  for (const Input input : all_inputs()) {
    for (const std::string threshold : {"exact", "reuse", "mstopk", "sampled", "gaussian", "sidco"}) {
      compare<float>(3, {.count = 4007, .threshold = threshold, .threshold_parameters = period_of(threshold, 3)}, input, 5,
                     Path::direct);
    }
  }
}

TEST_CASE("options of plans, in CUDA memory as in host memory", "[device_plan]") {
  const std::int64_t n = 5003;
  compare<float>(3, {.count = n, .k = 0}, Input::heavy_tailed, 2);
  compare<float>(3, {.count = n, .k = n}, Input::integers, 2);
  compare<float>(3, {.count = n, .error_feedback = Feedback::none}, Input::heavy_tailed, 3);
  compare<float>(3, {.count = n, .average = false}, Input::heavy_tailed, 2);
  compare<float>(3, {.count = n, .warmup_iterations = 4}, Input::heavy_tailed, 5);
  for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
    for (const char* const algorithm : {"oktopk", "gtopk", "topk_dsa"})
      compare<float>(4, {.count = n, .algorithm = algorithm, .wire_values = values}, Input::heavy_tailed, 3);
  }
  for (const NonFinite policy : {NonFinite::skip, NonFinite::propagate})
    compare<float>(3, {.count = n, .non_finite = policy}, Input::heavy_tailed, 5);
}

TEST_CASE("skewed inputs are re-cut and balanced in CUDA memory as in host memory", "[device_plan]") {
  for (const Path path : {Path::staged, Path::direct}) {
    for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
      for (const Input input : {Input::one_region, Input::jumping, Input::rank_heavy, Input::constant}) {
        compare<float>(
            5,
            {.count = 9001, .density = 0.05, .algorithm_parameters = "boundary_period=2,balance_trigger=1", .wire_format = format},
            input, 5, path);
      }
    }
    compare<float>(2, {.count = 3001, .density = 0.05}, Input::integers, 3, path);
    compare<float>(7, {.count = 5, .density = 0.5}, Input::integers, 3, path);
  }
}

TEST_CASE("an error in CUDA memory leaves gradient and residual", "[device_plan]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan on_host(comm, as_in_cuda_memory({.count = 4001})), on_gpu(comm, {.count = 4001, .memory = MemorySpace::cuda});
    for (int t = 0; t < 6; ++t) {
      auto gradient = make_input<float>(Input::heavy_tailed, 4001, comm.rank(), 3, t);
      if (t % 2 == 1 && comm.rank() == 1) gradient[77] = std::numeric_limits<float>::quiet_NaN();
      run_both(on_host, on_gpu, gradient, true, check, "iteration " + std::to_string(t) + ": ");
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("16-bit gradients: sums and residual in float32", "[device_plan]") {
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const std::int64_t n = 3001;
      AllreducePlan on_host(comm, {.count = n}), on_gpu(comm, {.count = n, .type = type, .memory = MemorySpace::cuda});
      const cuda::Stream stream;
      for (int t = 0; t < 3; ++t) {
        const auto exact = make_input<float>(Input::heavy_tailed, n, comm.rank(), 3, t);
        std::vector<std::uint16_t> narrow;
        std::vector<float> gradient;
        for (const float value : exact) {
          narrow.push_back(type == DataType::float16 ? narrow_to<float16>(value).bits : narrow_to<bfloat16>(value).bits);
          gradient.push_back(type == DataType::float16 ? widen(float16{narrow.back()}) : widen(bfloat16{narrow.back()}));
        }
        Upload<std::uint16_t> there(narrow, stream.get());
        on_host.run(gradient);
        on_gpu.run(there.data(), stream.get());
        std::vector<std::uint16_t> expected;
        for (const float value : gradient)
          expected.push_back(type == DataType::float16 ? narrow_to<float16>(value).bits : narrow_to<bfloat16>(value).bits);
        check.that(there.fetch() == expected, "other results");
        check.that(same_sums(fetch(on_gpu.residual<float>().data(), on_gpu.residual<float>().size(), stream.get()),
                             std::vector<float>(on_host.residual<float>().begin(), on_host.residual<float>().end())),
                   "other residuals");
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("no allocation in the steady state of plans in CUDA memory", "[device_plan]") {
  constexpr int ranks = 4, settled = 32,
                iterations = 48;  // enough for rare paths, which allocate their frames once
  const auto free_memory = [] {
    std::size_t free = 0, all = 0;
    if (cudaMemGetInfo(&free, &all) != cudaSuccess) throw std::runtime_error("the GPU cannot be asked");
    return static_cast<std::int64_t>(free);
  };
  const auto check_on = [&](const AllreduceConfig& config, Path path) {
    RankCheck check;
    RankOptions options{.machine = "node:4 rank:1"};
    if (path == Path::direct) options.make_copier = [] { return std::make_unique<GpuCopier>(); };
    run_ranks(
        ranks,
        [&](Communicator& comm) {
          AllreducePlan plan(comm, config);
          const cuda::Stream stream;
          cuda::DeviceArray<float> gradient(config.count);
          std::int64_t allocations = 0, free = 0;
          for (int t = 0; t < iterations; ++t) {
            auto values = make_input<float>(Input::heavy_tailed, config.count, comm.rank(), ranks, t);
            if (t == 4) {  // the path for a wrong threshold has been taken once
              for (float& value : values) value *= 1000;
            }
            cuda::copy(gradient.data(), values.data(), gradient.bytes(), stream.get());
            if (t == settled) free = free_memory();
            const std::int64_t before = allocations_of_this_thread();
            plan.run(gradient.data(), stream.get());
            if (t >= settled) allocations += allocations_of_this_thread() - before;
          }
          check.at_most(allocations, std::int64_t{0}, "heap allocations");
          check.at_most(free - free_memory(), std::int64_t{0}, "GPU memory taken");
        },
        options);
    INFO(config.algorithm << (path == Path::direct ? ", direct" : ", staged"));
    CHECK(check.failure() == "");
  };
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    for (const Path path : {Path::staged, Path::direct}) {
      if (left_out()) continue;
      check_on({.count = 5000,
                .memory = MemorySpace::cuda,
                .algorithm = std::string(algorithm.name),
                .algorithm_parameters = parameters_for(algorithm.name, "boundary_period=4")},
               path);
    }
  }
  check_on({.count = 5000, .memory = MemorySpace::cuda, .algorithm = "gtopk", .wire_values = WireValues::bfloat16}, Path::staged);
}

TEST_CASE("wrong memory and wrong streams are the same error on all ranks", "[device_plan]") {
  const auto refuse = [](const std::string& part, MemorySpace memory,
                         const std::function<void(AllreducePlan&, float*, bool)>& call) {
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = 100, .memory = memory});
              Upload<float> there(std::vector<float>(100), nullptr);
              call(plan, there.data(), comm.rank() == 1);
            }) == "");
  };
  std::vector<float> here(100);
  refuse("the gradient of rank 1 is in host memory", MemorySpace::cuda,
         [&](AllreducePlan& plan, float* there, bool wrong) { plan.run(wrong ? here.data() : there, nullptr); });
  refuse("the gradient of rank 1 is in GPU memory", MemorySpace::host, [&](AllreducePlan& plan, float* there, bool wrong) {
    std::vector<float> mine(100);
    plan.run(std::span(wrong ? there : mine.data(), 100));
  });
  refuse("rank 1 gave a stream", MemorySpace::host, [&](AllreducePlan& plan, float*, bool wrong) {
    const cuda::Stream stream;
    std::vector<float> mine(100);
    plan.run(mine.data(), wrong ? stream.get() : nullptr);
  });
  if (cuda::device_count() < 2) {
    WARN("one GPU: memory of another one not tested");
    return;
  }
  refuse("rank 1 is in the memory of another GPU", MemorySpace::cuda, [&](AllreducePlan& plan, float* there, bool wrong) {
    const cuda::OnDevice other(1);
    Upload<float> elsewhere(std::vector<float>(100), nullptr);
    plan.run(wrong ? elsewhere.data() : there, nullptr);
  });
}

TEST_CASE("tensor fusion refuses gradients in GPU memory on all ranks", "[device_plan]") {
  const std::vector<FusedTensor> tensors = {{.name = "first", .count = 100}, {.name = "bias", .count = 7, .dense = true}};
  for (const int wrong : {0, 1}) {
    const std::string part =
        "tensor '" + tensors[static_cast<std::size_t>(wrong)].name + "': the gradient of rank 1 is in GPU memory";
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) {
              std::vector<float> first(100), bias(7);
              Upload<float> there(first, nullptr);
              FusedAllreduce fused(comm, {}, tensors);
              const bool mine = comm.rank() == 1;
              fused.ready(1, std::span(mine && wrong == 1 ? there.data() : bias.data(), 7));
              fused.ready(0, std::span(mine && wrong == 0 ? there.data() : first.data(), 100));
              fused.wait_all();
            }) == "");
  }
}

TEST_CASE("why there is no GPU to work with", "[device_plan]") {
  CHECK_THAT(cuda::reason_unusable(0, 13000, cudaErrorInsufficientDriver, 0), ContainsSubstring("no CUDA driver"));
  CHECK_THAT(cuda::reason_unusable(12040, 13000, cudaErrorInsufficientDriver, 0),
             ContainsSubstring("the driver is for CUDA 12.4 and Weir was built with 13.0"));
  CHECK_THAT(cuda::reason_unusable(13000, 13000, cudaErrorNoDevice, 0), ContainsSubstring("no GPU is visible"));
  CHECK_THAT(cuda::reason_unusable(13000, 13000, cudaSuccess, 0), ContainsSubstring("no GPU is visible"));
  CHECK(cuda::reason_unusable(13000, 13000, cudaSuccess, 1).empty());
  CHECK(cuda::why_unusable().empty());
}

TEST_CASE("what CUDA memory cannot have is refused on all ranks", "[device_plan]") {
  const auto refuse = [](const std::string& part, AllreduceConfig config) {
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) { AllreducePlan plan(comm, config); }) == "");
  };
  refuse("in CUDA memory it must be sparse", {.count = 100, .memory = MemorySpace::cuda, .algorithm = "dense_ring"});
  refuse("16-bit types need memory cuda", {.count = 100, .type = DataType::bfloat16});
  REQUIRE(unlike_errors(3, WEIR_ERR_UNSUPPORTED, "dense_iterations in CUDA memory needs NCCL on all ranks", [](Communicator& comm) {
            AllreducePlan plan(comm, {.count = 100, .memory = MemorySpace::cuda, .dense_iterations = 3});
          }) == "");
  if (cuda::describe(0).bytes > std::int64_t{1} << 33) {
    WARN("too much GPU memory to run out of it");
    return;
  }
  REQUIRE(unlike_errors(2, WEIR_ERR_MEMORY, "rank 0 has not enough memory", [](Communicator& comm) {
            AllreducePlan plan(comm,
                               {.count = std::int64_t{4000000000}, .memory = MemorySpace::cuda, .algorithm = "topk_allgather"});
          }) == "");
}

}  // namespace weir::test
