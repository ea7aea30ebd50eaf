// test_device_compressors.cpp: every compressor in CUDA memory delivers and keeps the same as in host memory, bit for bit, with
// every algorithm that carries it, every kind of error feedback, and NaN under each policy. Invalid combinations are refused.
#include <limits>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "cuda/runtime.hpp"
#include "kernels/narrow.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/device_arrays.hpp"
#include "support/device_runs.hpp"
#include "support/gpu_copier.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/plan_states.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using compress::Carriage;
using compress::CompressorRow;

/// Compares CUDA memory with host memory. Dense exchanges sum what linear compressors make in host memory.
std::vector<std::string> carriers(const CompressorRow& row) {
  std::vector<std::string> names;
  for (const AllreduceRow& algorithm : allreduce_registry()) {
    const bool carries = row.carriage == Carriage::sparse   ? algorithm.sparse()
                         : row.carriage == Carriage::packed ? algorithm.packed()
                                                            : algorithm.dense() && algorithm.host_memory;
    if (carries) names.emplace_back(algorithm.name);
  }
  return names;
}

bool may_feed_back(const CompressorRow& row) {
  return row.why_no_feedback == nullptr ||
         row.why_no_feedback(Parameters({"compressor_parameters", row.name}, row.parameters, "")).empty();
}

AllreduceConfig config_of(const CompressorRow& row, const std::string& algorithm, std::int64_t count) {
  return {.count = count, .density = 0.05, .algorithm = algorithm, .compressor = std::string(row.name)};
}

std::string text_of(int ranks, const AllreduceConfig& c, const std::string& what) {
  return fmt::format("{} ({}) by {} on {} ranks, n {}, feedback {}, decay {}, gain {}: {}", c.compressor, c.compressor_parameters,
                     c.algorithm, ranks, c.count, static_cast<int>(c.error_feedback), c.feedback_decay, c.feedback_gain, what);
}

/// With `direct`, messages are sent directly from GPU memory.
void compare(int ranks, const AllreduceConfig& config, Input input = Input::heavy_tailed, float bad = 0, bool direct = false) {
  if (left_out()) return;
  RankCheck check;
  RankOptions options{.seed = 5, .machine = fmt::format("node:{} rank:1", ranks)};
  if (direct) options.make_copier = [] { return std::make_unique<GpuCopier>(); };
  run_ranks(
      ranks,
      [&](Communicator& comm) {
        AllreduceConfig of_gpu = config;
        of_gpu.memory = MemorySpace::cuda;
        AllreducePlan on_host(comm, as_in_cuda_memory(config)), on_gpu(comm, of_gpu);
        const bool sparse = find_allreduce(config.algorithm).sparse();
        for (int t = 0; t < 4; ++t) {
          auto gradient = make_input<float>(input, config.count, comm.rank(), ranks, t);
          if (bad != 0 && t % 2 == 1 && comm.rank() == ranks - 1 && !gradient.empty()) gradient[gradient.size() / 2] = bad;
          const bool in_place = !sparse || config.error_feedback == Feedback::ef21 || t % 2 == 0;
          run_both(on_host, on_gpu, gradient, in_place, check, fmt::format("rank {}, iteration {}: ", comm.rank(), t));
        }
      },
      options);
  INFO(text_of(ranks, config, input_name(input)));
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("every compressor by every algorithm, in CUDA memory as in host memory", "[device_compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : carriers(*row)) {
      for (const int ranks : {1, 3}) compare(ranks, config_of(*row, algorithm, 3001));
      for (const std::int64_t n : {0, 1, 257}) compare(2, config_of(*row, algorithm, n));
      if (row->carriage == Carriage::packed) compare(4, config_of(*row, algorithm, 5001), Input::heavy_tailed, 0, true);
    }
    for (const Input input : all_inputs()) compare(3, config_of(*row, carriers(*row).back(), 1003), input);
    for (const ParameterInfo& info : row->parameters) {
      AllreduceConfig config = config_of(*row, carriers(*row).front(), 2003);
      for (const std::string_view word : info.words) {
        config.compressor_parameters = fmt::format("{}={}", info.name, word);
        compare(2, config);
      }
    }
  }
}

TEST_CASE("every memory, in CUDA memory as in host memory", "[device_compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : {carriers(*row).front(), carriers(*row).back()}) {
      AllreduceConfig config = config_of(*row, algorithm, 1501);
      config.error_feedback = Feedback::none;
      compare(3, config);
      config.feedback_gain = 0.5;
      compare(3, config);
      if (!may_feed_back(*row)) continue;
      config.error_feedback = Feedback::residual;
      config.feedback_decay = 0.95;
      compare(3, config);
      if (row->momentum != nullptr) continue;
      config = config_of(*row, algorithm, 1501);
      config.error_feedback = Feedback::ef21;
      compare(3, config);
    }
  }
  for (const char* const parameters : {"momentum=0.5", "momentum=0.5,masking=0", "momentum=0.9,clip=1", "momentum=0,clip=0.01"}) {
    AllreduceConfig config = config_of(compress::find_compressor("dgc"), "oktopk", 3001);
    config.compressor_parameters = parameters;
    compare(3, config);
  }
  AllreduceConfig unbiased = config_of(compress::find_compressor("random_k"), "topk_allgather", 3001);
  unbiased.compressor_parameters = "unbiased=1";
  unbiased.error_feedback = Feedback::none;
  compare(3, unbiased);
  AllreduceConfig doubles = config_of(compress::find_compressor("dgc"), "topk_allgather", 501);
  doubles.type = DataType::float64;
  doubles.feedback_decay = 0.9;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreduceConfig of_gpu = doubles;
    of_gpu.memory = MemorySpace::cuda;
    AllreducePlan on_host(comm, doubles), on_gpu(comm, of_gpu);
    for (int t = 0; t < 3; ++t)
      run_both(on_host, on_gpu, make_input<double>(Input::heavy_tailed, 501, comm.rank(), 2, t), true, check, "");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("NaN and infinity under each policy, with every compressor in CUDA memory", "[device_compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : {carriers(*row).front(), carriers(*row).back()}) {
      for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) {
        AllreduceConfig config = config_of(*row, algorithm, 501);
        config.non_finite = policy;
        compare(3, config, Input::heavy_tailed, std::numeric_limits<float>::quiet_NaN());
        compare(2, config, Input::heavy_tailed, -std::numeric_limits<float>::infinity());
      }
    }
  }
}

TEST_CASE("compressed gradients of 16 bits: residual in float32, updates rounded", "[device_compressors]") {
  const auto compare_narrow = [](auto type, DataType data_type, const AllreduceConfig& config) {
    using G = decltype(type);
    if (left_out()) return;
    RankCheck check;
    run_ranks(3,
              [&](Communicator& comm) {
                AllreduceConfig of_gpu = config;
                of_gpu.memory = MemorySpace::cuda;
                of_gpu.type = data_type;
                AllreducePlan on_host(comm, config), on_gpu(comm, of_gpu);
                const cuda::Stream stream;
                for (int t = 0; t < 3; ++t) {
                  std::vector<G> narrow;
                  std::vector<float> gradient;
                  for (const float value : make_input<float>(Input::heavy_tailed, config.count, comm.rank(), 3, t)) {
                    narrow.push_back(narrow_to<G>(value));
                    gradient.push_back(widen(narrow.back()));
                  }
                  Upload<G> there(narrow, stream.get());
                  on_host.run(gradient);
                  on_gpu.run(there.data(), stream.get());
                  const std::vector<G> update = there.fetch();
                  for (std::size_t i = 0; i < gradient.size(); ++i)
                    check.that(update[i].bits == narrow_to<G>(gradient[i]).bits, fmt::format("element {} of iteration {}", i, t));
                  check.that(same_sums(fetch(on_gpu.residual<float>().data(), on_gpu.residual<float>().size(), stream.get()),
                                       std::vector<float>(on_host.residual<float>().begin(), on_host.residual<float>().end())),
                             "other residuals");
                }
              },
              {.machine = "node:3 rank:1"});
    INFO(text_of(3, config, data_type == DataType::float16 ? "float16" : "bfloat16"));
    REQUIRE(check.failure() == "");
  };
  for (const CompressorRow* row : compress::compressor_registry()) {
    AllreduceConfig config = config_of(*row, carriers(*row).back(), 701);
    compare_narrow(float16{}, DataType::float16, config);
    compare_narrow(bfloat16{}, DataType::bfloat16, config);
    config.error_feedback = Feedback::none;
    config.feedback_gain = 0.5;
    compare_narrow(bfloat16{}, DataType::bfloat16, config);
    config.feedback_gain = 1;
    compare_narrow(bfloat16{}, DataType::bfloat16, config);
  }
}

TEST_CASE("nothing is allocated in the steady state of compressed plans in CUDA memory", "[device_compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : {carriers(*row).front(), carriers(*row).back()}) {
      if (left_out()) continue;
      RankCheck check;
      run_ranks(2,
                [&](Communicator& comm) {
                  AllreduceConfig config = config_of(*row, algorithm, 2001);
                  config.memory = MemorySpace::cuda;
                  AllreducePlan plan(comm, config);
                  const cuda::Stream stream;
                  cuda::DeviceArray<float> gradient(config.count);
                  std::int64_t allocations = 0;
                  for (int t = 0; t < 40; ++t) {
                    const auto values = make_input<float>(Input::heavy_tailed, config.count, comm.rank(), 2, t);
                    cuda::copy(gradient.data(), values.data(), gradient.bytes(), stream.get());
                    cuda::synchronize(stream.get());
                    const std::int64_t before = allocations_of_this_thread();
                    plan.run(gradient.data(), stream.get());
                    if (t >= 32) allocations += allocations_of_this_thread() - before;
                  }
                  check.at_most(allocations, std::int64_t{0}, "heap allocations");
                },
                {.machine = "node:2 rank:1"});
      INFO(row->name << " by " << algorithm);
      CHECK(check.failure() == "");
    }
  }
}

TEST_CASE("plans say what is compressed in host memory", "[device_compressors]") {
  run_ranks(2, [](Communicator& comm) {
    const auto on_host = [&](const std::string& algorithm, const std::string& compressor, const std::string& parameters = "") {
      const AllreducePlan plan(comm, {.count = 100,
                                      .memory = MemorySpace::cuda,
                                      .algorithm = algorithm,
                                      .compressor = compressor,
                                      .compressor_parameters = parameters});
      return plan.explanation().find(compressor + " compresses in host memory") != std::string::npos;
    };
    if (on_host("oktopk", "dgc") || on_host("packed_allgather", "block_quantise") || on_host("packed_reduce_scatter", "qsgd"))
      throw std::runtime_error("not on the GPU");
    if (!on_host("packed_allgather", "lossless") || !on_host("dense_ring", "power_sgd") ||
        !on_host("packed_allgather", "qsgd", "bucket=0"))
      throw std::runtime_error("on the GPU");
  });
}

TEST_CASE("compressors and memories that CUDA memory cannot have are refused on all ranks", "[device_compressors]") {
  const auto refuse = [](const std::string& part, AllreduceConfig config) {
    config.count = 100;
    config.memory = MemorySpace::cuda;
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) { AllreducePlan plan(comm, config); }) == "");
  };
  refuse("in CUDA memory it must be sparse, auto_sparse, dense_nccl or dense_torus2d, packed,", {.algorithm = "dense_ring"});
  refuse("compressor power_sgd makes is summed in host memory", {.algorithm = "dense_nccl", .compressor = "power_sgd"});
  refuse(
      "algorithm oktopk cannot carry it; dense_ring, dense_rabenseifner, dense_torus2d, dense_mpi, dense_reproducible, or auto, "
      "can",
      {.algorithm = "oktopk", .compressor = "power_sgd"});
  refuse("type is float64: compressor block_quantise takes float32 only, or float16 and bfloat16",
         {.type = DataType::float64, .algorithm = "packed_allgather"});
  refuse("the sum of all updates needs float32, and type is float16",
         {.type = DataType::float16, .algorithm = "packed_allgather", .error_feedback = Feedback::ef21});
  refuse("must be of one compressor; compressor is top_k|random_k",
         {.algorithm = "auto_sparse", .trial_iterations = 2, .compressor = "top_k|random_k"});
}

}  // namespace weir::test
