// test_device_optimizer.cpp: LARS and LAMB in CUDA memory equal the papers' loops, bit for bit, and their states equal those in
// host memory.
#include <cmath>

#include "cuda/device_layers.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Copies the gradients on the stream. Returns them, because freeing memory would wait for the GPU.
[[nodiscard]] GpuArrays<float> step(LayerOptimizer& optimizer, GpuArrays<float>& weights, const std::vector<OptimizedLayer>& layers,
                                    int t, void* stream) {
  GpuArrays<float> gradients(arrays_of(layers, 1 + t, 0.1F), stream);
  optimizer.step(weights.write(), gradients.read(), learning_rate_of(t), stream);
  return gradients;
}

void step_on_host(LayerOptimizer& optimizer, Arrays& weights, const std::vector<OptimizedLayer>& layers, int t) {
  Arrays gradients = arrays_of(layers, 1 + t, 0.1F);
  const std::vector<float*> w = pointers_of(weights), g = pointers_of(gradients);
  optimizer.step(w, std::vector<const float*>(g.begin(), g.end()), learning_rate_of(t));
}

template <class Call>
void for_each_kind(Call call) {
  for (const OptimizerRule rule : rules)
    for (const OperatorDivision update : updates) {
      INFO("rule " << static_cast<int>(rule) << " update " << static_cast<int>(update));
      call(OptimizerConfig{.rule = rule, .weight_decay = 1e-2, .update = update});
    }
}

}  // namespace

TEST_CASE("weights in CUDA memory are those of the papers' loops", "[device_optimizer]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for (const Job& job : device_jobs) {
    for_each_kind([&](const OptimizerConfig& config) {
      if (left_out(4)) return;
      const Arrays right = right_weights(config, layers);
      RankCheck check;
      run_ranks(job.ranks,
                [&](Communicator& comm) {
                  const cuda::Stream stream;
                  LayerOptimizer optimizer(comm, in_cuda_memory(config), layers);
                  GpuArrays<float> weights(arrays_of(layers, 0, 1), stream.get());
                  std::vector<GpuArrays<float>> gradients;
                  for (int t = 0; t < steps; ++t) gradients.push_back(step(optimizer, weights, layers, t, stream.get()));
                  check.that(weights.fetch() == right, "weights");  // on the stream: nothing else waits
                  if (config.update == OperatorDivision::automatic)
                    check.that(optimizer.config().update == OperatorDivision::replicated, "automatic choice");
                },
                {.machine = job.machine});
      INFO("P " << job.ranks << " '" << job.machine << "'");
      REQUIRE(check.failure() == "");
    });
  }
}

TEST_CASE("states of optimizers go from CUDA memory to host memory and back", "[device_optimizer]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for_each_kind([&](const OptimizerConfig& config) {
    if (left_out(2)) return;
    const Arrays right = right_weights(config, layers);
    RankCheck check;
    run_ranks(2, [&](Communicator& comm) {
      const cuda::Stream stream;
      GpuArrays<float> weights(arrays_of(layers, 0, 1), stream.get());
      LayerOptimizer on_gpu(comm, in_cuda_memory(config), layers);
      const GpuArrays<float> first = step(on_gpu, weights, layers, 0, stream.get());
      std::vector<std::byte> state(static_cast<std::size_t>(on_gpu.state_bytes()));
      on_gpu.save_state(state);
      Arrays here = weights.fetch();
      OptimizerConfig alike = config;
      alike.update = on_gpu.config().update;
      LayerOptimizer on_host(comm, alike, layers);
      on_host.restore_state(state);
      step_on_host(on_host, here, layers, 1);
      on_host.save_state(state);
      on_gpu.reset();
      on_gpu.restore_state(state);
      GpuArrays<float> goes_on(here, stream.get());
      std::vector<GpuArrays<float>> gradients;
      for (int t = 2; t < steps; ++t) gradients.push_back(step(on_gpu, goes_on, layers, t, stream.get()));
      check.that(goes_on.fetch() == right, "weights");
    });
    REQUIRE(check.failure() == "");
  });
}

TEST_CASE("wrong memory of optimizers is the same error on all ranks", "[device_optimizer]") {
  constexpr int ranks = 3;
  SameErrors errors(ranks);
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const std::vector<OptimizedLayer> layers = odd_layers();
    const cuda::Stream stream;
    const auto expect = [&](weir_status status, const char* text, const auto& call) {
      errors.expect(comm.rank(), status, text, call);
    };
    expect(WEIR_ERR_MISMATCH, "memory",
           [&] { LayerOptimizer(comm, {.memory = comm.rank() == 1 ? MemorySpace::cuda : MemorySpace::host}, layers); });
    Arrays here = arrays_of(layers, 0, 1), slopes = arrays_of(layers, 1, 1);
    const std::vector<float*> w = pointers_of(here), g = pointers_of(slopes);
    const std::vector<const float*> read(g.begin(), g.end());
    {
      LayerOptimizer optimizer(comm, {.memory = MemorySpace::cuda, .name = "net"}, layers);
      GpuArrays<float> weights(here, stream.get());
      const GpuArrays<float> gradients(slopes, stream.get());
      const bool wrong = comm.rank() == 1;
      expect(WEIR_ERR_ARGUMENT, "optimizer 'net': the array of weights or gradients of rank 1 is in host memory",
             [&] { optimizer.step(wrong ? w : weights.write(), gradients.read(), 0.1, stream.get()); });
      expect(WEIR_ERR_ARGUMENT, "optimizer 'net': the array of weights or gradients of rank 1 is in host memory",
             [&] { optimizer.step(weights.write(), wrong ? read : gradients.read(), 0.1, stream.get()); });
      Arrays infinite = slopes;
      infinite[3][70000] = std::numeric_limits<float>::infinity();
      const GpuArrays<float> too_large(infinite, stream.get());
      expect(WEIR_ERR_NON_FINITE, "layer 'wide': the norm of its gradient is not finite",
             [&] { optimizer.step(weights.write(), too_large.read(), 0.1, stream.get()); });
      check.that(weights.fetch() == here, "weights after steps that were refused");
      optimizer.step(weights.write(), gradients.read(), 0.1, stream.get());
      check.that(weights.fetch() != here, "weights after a step");
    }
    LayerOptimizer optimizer(comm, {.name = "net"}, layers);
    expect(WEIR_ERR_ARGUMENT, "optimizer 'net': rank 1 gave a stream, but the optimizer is for host memory",
           [&] { optimizer.step(w, read, 0.1, comm.rank() == 1 ? stream.get() : nullptr); });
    const GpuArrays<float> there(here, stream.get());
    expect(WEIR_ERR_ARGUMENT, "optimizer 'net': the array of weights or gradients of rank 2 is in GPU memory",
           [&] { optimizer.step(comm.rank() == 2 ? there.write() : w, read, 0.1); });
  });
  REQUIRE(errors.failure() == "");
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
