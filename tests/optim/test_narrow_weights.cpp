// LARS and LAMB on 16-bit weights equal the papers' loops on float32 weights, rounded after each step.
#include <cstring>

#include "optim/narrow_loops.hpp"
#include "optim/narrow_weights.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Pointers to arrays, for step_raw.
struct Pointers {
  Pointers(Words& weights, const Words& gradients) {
    for (auto& array : weights) write.push_back(array.data());
    for (const auto& array : gradients) read.push_back(array.data());
  }
  std::vector<void*> write;
  std::vector<const void*> read;
};

void step(LayerOptimizer& optimizer, Words& weights, const std::vector<OptimizedLayer>& layers, int t) {
  const Words gradients = gradients_of(optimizer.config().type, layers, t);
  const Pointers arrays(weights, gradients);
  optimizer.step_raw(arrays.write, arrays.read, learning_rate_of(t));
}

void check_weights(const Job& job, const OptimizerConfig& config, int change) {
  if (left_out(4)) return;
  const std::vector<OptimizedLayer> layers = odd_layers();
  const Words right = right_words(config, layers, change);
  RankCheck check;
  run_ranks(job.ranks,
            [&](Communicator& comm) {
              LayerOptimizer optimizer(comm, config, layers);
              Words weights = first_weights(config.type, layers);
              for (int t = 0; t < steps; ++t) {
                if (t == change) set_some(config.type, weights);
                step(optimizer, weights, layers, t);
              }
              check.that(weights == right, "weights");
            },
            {.machine = job.machine});
  INFO("P " << job.ranks << " '" << job.machine << "' rule " << static_cast<int>(config.rule) << " update "
            << static_cast<int>(config.update) << " type " << static_cast<int>(config.type) << " change " << change);
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("16-bit weights are the papers' loops in float32, rounded, on any number of ranks", "[optim]") {
  for (const Job& job : jobs) {
    if (job.ranks < 10) for_each_narrow_kind([&](const OptimizerConfig& config) { check_weights(job, config, -1); });
  }
}

TEST_CASE("16-bit weights that the caller sets are taken over", "[optim]") {
  for_each_narrow_kind([&](const OptimizerConfig& config) { check_weights(jobs[2], config, 2); });
}

TEST_CASE("only what differs from what was made of it is taken over", "[optim]") {
  for (const DataType type : narrow_types) {
    for (const std::int64_t count : {0, 1, 1023, 1024, 1025, 5000}) {
      const auto size = static_cast<std::size_t>(count);
      std::vector<float> wide(size), made(size);
      std::vector<std::uint16_t> words(size);
      for (std::size_t i = 0; i < size; ++i) wide[i] = std::sin(static_cast<float>(i)) * (i % 17 == 0 ? 1e6F : 1);
      optim::narrow(type, wide.data(), count, words.data());
      for (std::size_t i = 0; i < size; ++i) REQUIRE(words[i] == narrowed(type, wide[i]));
      std::vector<float> kept = wide;
      optim::take_over(type, words.data(), count, kept.data());
      REQUIRE(kept == wide);
      for (std::size_t i = 0; i < size; i += 1030) words[i] ^= 1;
      optim::take_over(type, words.data(), count, kept.data());
      for (std::size_t i = 0; i < size; ++i) REQUIRE(kept[i] == (i % 1030 == 0 ? widened(type, words[i]) : wide[i]));
    }
  }
}

TEST_CASE("an optimizer of 16-bit weights goes on from a saved state", "[optim]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for_each_narrow_kind([&](const OptimizerConfig& config) {
    if (left_out(4)) return;
    const Words right = right_words(config, layers, -1);
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      Words weights = first_weights(config.type, layers);
      std::vector<std::byte> state;
      {
        LayerOptimizer first(comm, config, layers);
        for (int t = 0; t < steps / 2; ++t) step(first, weights, layers, t);
        state.resize(static_cast<std::size_t>(first.state_bytes()));
        first.save_state(state);
      }
      LayerOptimizer second(comm, config, layers);
      Words others = weights;
      step(second, others, layers, 9);  // the restored state replaces this
      second.restore_state(state);
      for (int t = steps / 2; t < steps; ++t) step(second, weights, layers, t);
      check.that(weights == right, "weights");
      second.reset();
      weights = first_weights(config.type, layers);
      for (int t = 0; t < steps; ++t) step(second, weights, layers, t);
      check.that(weights == right, "weights after a reset");
    });
    INFO("rule " << static_cast<int>(config.rule) << " update " << static_cast<int>(config.update));
    REQUIRE(check.failure() == "");
  });
}

TEST_CASE("wrong types are told on all ranks alike", "[optim]") {
  constexpr int ranks = 3;
  SameErrors errors(ranks);
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const std::vector<OptimizedLayer> layers = odd_layers();
    const auto expect = [&](weir_status status, const char* text, const auto& call) {
      errors.expect(comm.rank(), status, text, call);
    };
    expect(WEIR_ERR_ARGUMENT, "type is float64: it must be float32, float16 or bfloat16",
           [&] { LayerOptimizer(comm, {.type = DataType::float64}, layers); });
    expect(WEIR_ERR_MISMATCH, "type", [&] { LayerOptimizer(comm, {.type = narrow_types[comm.rank() == 1 ? 1 : 0]}, layers); });
    LayerOptimizer optimizer(comm, {.type = DataType::float16, .name = "net"}, layers);
    Words weights = first_weights(DataType::float16, layers);
    const Words before = weights;
    Arrays w = arrays_of(layers, 0, 1), g = arrays_of(layers, 1, 1);
    const std::vector<float*> of_w = pointers_of(w), of_g = pointers_of(g);
    const std::vector<const float*> read(of_g.begin(), of_g.end());
    expect(WEIR_ERR_ARGUMENT, "optimizer 'net', rank 1: weights and gradients are given as float32: its type is float16", [&] {
      if (comm.rank() == 1)
        optimizer.step(of_w, read, 0.1);
      else
        step(optimizer, weights, layers, 0);
    });
    check.that(weights == before, "weights after a step that was refused");
    Words gradients = gradients_of(DataType::float16, layers, 0);
    gradients[3][70000] = 0x7c00;
    const Pointers arrays(weights, gradients);
    expect(WEIR_ERR_NON_FINITE, "layer 'wide': the norm of its gradient is not finite",
           [&] { optimizer.step_raw(arrays.write, arrays.read, 0.1); });
    check.that(weights == before, "weights after a gradient that was refused");
  });
  REQUIRE(errors.failure() == "");
  REQUIRE(check.failure() == "");
}

TEST_CASE("float32 arrays go to step_raw, too", "[optim]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  const Arrays right = right_weights(OptimizerConfig{.weight_decay = 1e-2}, layers);
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    LayerOptimizer optimizer(comm, {.weight_decay = 1e-2}, layers);
    Arrays weights = arrays_of(layers, 0, 1);
    for (int t = 0; t < steps; ++t) {
      Arrays gradients = arrays_of(layers, 1 + t, 0.1F);
      const std::vector<float*> w = pointers_of(weights), g = pointers_of(gradients);
      const std::vector<void*> write(w.begin(), w.end());
      const std::vector<const void*> read(g.begin(), g.end());
      optimizer.step_raw(write, read, learning_rate_of(t));
    }
    check.that(weights == right, "weights");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("16-bit weights: memory is counted, and a step allocates nothing", "[optim]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  std::int64_t elements = 0;
  for (const OptimizedLayer& layer : layers) elements += layer.count;
  RankCheck check;
  for (const OperatorDivision update : updates) {
    run_ranks(4, [&](Communicator& comm) {
      LayerOptimizer optimizer(comm, {.update = update, .type = DataType::bfloat16}, layers);
      const LayerOptimizer wide(comm, {.update = optimizer.config().update}, layers);
      const std::int64_t more = optimizer.memory_bytes() - wide.memory_bytes(), block = 4 * 65536;
      if (update == OperatorDivision::replicated) check.that(more == 4 * elements + block, "memory of a rank that keeps all");
      Words weights = first_weights(DataType::bfloat16, layers);
      const Words gradients = gradients_of(DataType::bfloat16, layers, 0);
      const Pointers arrays(weights, gradients);
      for (int t = 0; t < 3; ++t) optimizer.step_raw(arrays.write, arrays.read, 0.1);
      const std::int64_t before = allocations_of_this_thread();
      for (int t = 0; t < 3; ++t) optimizer.step_raw(arrays.write, arrays.read, 0.1);
      check.that(allocations_of_this_thread() == before, "allocations");
    });
  }
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
