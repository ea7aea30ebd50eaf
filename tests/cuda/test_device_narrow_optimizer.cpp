// test_device_narrow_optimizer.cpp: LARS and LAMB on 16-bit weights in CUDA memory equal the papers' loops on float32 weights,
// rounded, bit for bit. States go to host memory and back.
#include <cmath>
#include <optional>

#include "cuda/device_layers.hpp"
#include "optim/narrow_loops.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using GpuWords = GpuArrays<std::uint16_t>;

/// Copies the gradients on the stream. Returns them, because freeing memory would wait for the GPU.
[[nodiscard]] GpuWords step(LayerOptimizer& optimizer, const GpuWords& weights, const std::vector<OptimizedLayer>& layers, int t,
                            void* stream) {
  GpuWords gradients(gradients_of(optimizer.config().type, layers, t), stream);
  optimizer.step_raw(weights.write<void*>(), gradients.read<const void*>(), learning_rate_of(t), stream);
  return gradients;
}

void step_on_host(LayerOptimizer& optimizer, Words& weights, const std::vector<OptimizedLayer>& layers, int t) {
  const Words gradients = gradients_of(optimizer.config().type, layers, t);
  std::vector<void*> write;
  std::vector<const void*> read;
  for (auto& array : weights) write.push_back(array.data());
  for (const auto& array : gradients) read.push_back(array.data());
  optimizer.step_raw(write, read, learning_rate_of(t));
}

std::string words_of(const OptimizerConfig& config) {
  return "rule " + std::to_string(static_cast<int>(config.rule)) + " update " + std::to_string(static_cast<int>(config.update)) +
         " type " + std::to_string(static_cast<int>(config.type));
}

}  // namespace

TEST_CASE("16-bit weights in CUDA memory are the papers' loops in float32, rounded", "[device_optimizer]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for (const int change : {-1, 2}) {  // the optimizer takes over weights that the caller sets
    for_each_narrow_kind([&](const OptimizerConfig& config) {
      std::optional<Words> right;
      for (const Job& job : device_jobs) {
        if (left_out()) continue;
        if (!right) right = right_words(config, layers, change);
        RankCheck check;
        run_ranks(job.ranks,
                  [&](Communicator& comm) {
                    const cuda::Stream stream;
                    LayerOptimizer optimizer(comm, in_cuda_memory(config), layers);
                    std::vector<GpuWords> weights, gradients;
                    weights.emplace_back(first_weights(config.type, layers), stream.get());
                    for (int t = 0; t < steps; ++t) {
                      if (t == change) {
                        Words set = weights.back().fetch();
                        set_some(config.type, set);
                        weights.emplace_back(set, stream.get());
                      }
                      gradients.push_back(step(optimizer, weights.back(), layers, t, stream.get()));
                    }
                    check.that(weights.back().fetch() == *right, "weights");  // on the stream: nothing else waits
                  },
                  {.machine = job.machine});
        INFO("P " << job.ranks << " '" << job.machine << "' " << words_of(config) << " change " << change);
        REQUIRE(check.failure() == "");
      }
    });
  }
}

TEST_CASE("states of optimizers of 16-bit weights go from CUDA memory to host memory and back", "[device_optimizer]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for_each_narrow_kind([&](const OptimizerConfig& config) {
    if (left_out(4)) return;
    const Words right = right_words(config, layers, -1);
    RankCheck check;
    run_ranks(2, [&](Communicator& comm) {
      const cuda::Stream stream;
      const GpuWords weights(first_weights(config.type, layers), stream.get());
      LayerOptimizer on_gpu(comm, in_cuda_memory(config), layers);
      const GpuWords first = step(on_gpu, weights, layers, 0, stream.get());
      std::vector<std::byte> state(static_cast<std::size_t>(on_gpu.state_bytes()));
      on_gpu.save_state(state);
      Words here = weights.fetch();
      OptimizerConfig alike = config;
      alike.update = on_gpu.config().update;
      LayerOptimizer on_host(comm, alike, layers);
      on_host.restore_state(state);
      step_on_host(on_host, here, layers, 1);
      on_host.save_state(state);
      on_gpu.reset();
      on_gpu.restore_state(state);
      const GpuWords goes_on(here, stream.get());
      std::vector<GpuWords> gradients;
      for (int t = 2; t < steps; ++t) gradients.push_back(step(on_gpu, goes_on, layers, t, stream.get()));
      check.that(goes_on.fetch() == right, "weights");
      on_gpu.reset();
      const GpuWords again(first_weights(config.type, layers), stream.get());
      for (int t = 0; t < steps; ++t) gradients.push_back(step(on_gpu, again, layers, t, stream.get()));
      check.that(again.fetch() == right, "weights after a reset");
    });
    INFO(words_of(config));
    REQUIRE(check.failure() == "");
  });
}

TEST_CASE("16-bit weights in CUDA memory: what is wrong is told on all ranks alike, and memory is counted", "[device_optimizer]") {
  constexpr int ranks = 3;
  SameErrors errors(ranks);
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const std::vector<OptimizedLayer> layers = odd_layers();
    const cuda::Stream stream;
    const auto expect = [&](weir_status status, const char* text, const auto& call) {
      errors.expect(comm.rank(), status, text, call);
    };
    LayerOptimizer optimizer(comm, {.type = DataType::float16, .memory = MemorySpace::cuda, .name = "net"}, layers);
    const LayerOptimizer wide(comm, {.memory = MemorySpace::cuda}, layers);
    std::int64_t elements = 0;
    for (const OptimizedLayer& layer : layers) elements += layer.count;
    check.that(optimizer.memory_bytes() == wide.memory_bytes() + 4 * elements, "memory of a rank that keeps all");
    const Words here = first_weights(DataType::float16, layers);
    Words too_large = gradients_of(DataType::float16, layers, 0);
    const GpuWords weights(here, stream.get()), gradients(too_large, stream.get());
    too_large[3][70000] = 0x7c00;
    const GpuWords infinite(too_large, stream.get());
    const GpuArrays<float> floats(arrays_of(layers, 0, 1), stream.get());
    expect(WEIR_ERR_ARGUMENT, "optimizer 'net', rank 1: weights and gradients are given as float32: its type is float16", [&] {
      if (comm.rank() == 1)
        optimizer.step(floats.write(), floats.read(), 0.1, stream.get());
      else
        optimizer.step_raw(weights.write<void*>(), gradients.read<const void*>(), 0.1, stream.get());
    });
    std::vector<const void*> on_host;
    for (const auto& array : too_large) on_host.push_back(array.data());
    expect(WEIR_ERR_ARGUMENT, "optimizer 'net': the array of weights or gradients of rank 1 is in host memory", [&] {
      optimizer.step_raw(weights.write<void*>(), comm.rank() == 1 ? on_host : gradients.read<const void*>(), 0.1, stream.get());
    });
    expect(WEIR_ERR_NON_FINITE, "layer 'wide': the norm of its gradient is not finite",
           [&] { optimizer.step_raw(weights.write<void*>(), infinite.read<const void*>(), 0.1, stream.get()); });
    check.that(weights.fetch() == here, "weights after steps that were refused");
    optimizer.step_raw(weights.write<void*>(), gradients.read<const void*>(), 0.1, stream.get());
    check.that(weights.fetch() != here, "weights after a step");
  });
  REQUIRE(errors.failure() == "");
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
