// LARS and LAMB equal loops written from the papers, bit for bit, for any division of the work among ranks.
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <weir/optim.hpp>

#include "optim/layer_loops.hpp"
#include "optim/layer_optimizer.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

void step(LayerOptimizer& optimizer, Arrays& weights, const std::vector<OptimizedLayer>& layers, int t) {
  Arrays gradients = arrays_of(layers, 1 + t, 0.1F);
  const std::vector<float*> w = pointers_of(weights), g = pointers_of(gradients);
  const std::vector<const float*> read(g.begin(), g.end());
  optimizer.step(w, read, learning_rate_of(t));
}

void check_weights(const Job& job, const OptimizerConfig& config) {
  const std::vector<OptimizedLayer> layers = odd_layers();
  const Arrays right = right_weights(config, layers);
  RankCheck check;
  run_ranks(job.ranks,
            [&](Communicator& comm) {
              LayerOptimizer optimizer(comm, config, layers);
              Arrays weights = arrays_of(layers, 0, 1);
              for (int t = 0; t < steps; ++t) step(optimizer, weights, layers, t);
              check.that(weights == right, "weights");
              check.that(optimizer.statistics().steps == steps, "steps");
              if (config.update != OperatorDivision::automatic) check.that(optimizer.config().update == config.update, "update");
            },
            {.machine = job.machine});
  INFO("P " << job.ranks << " '" << job.machine << "' rule " << static_cast<int>(config.rule) << " update "
            << static_cast<int>(config.update) << " largest_rate " << config.largest_rate);
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("weights are those of the papers' loops, on any number of ranks", "[optim]") {
  for (const Job& job : jobs) {
    for (const OptimizerRule rule : rules) {
      for (const OperatorDivision update : updates) {
        if (!left_out(4)) check_weights(job, {.rule = rule, .weight_decay = 1e-2, .update = update});
      }
    }
  }
}

TEST_CASE("rates are limited where one asks", "[optim]") {
  for (const OptimizerRule rule : rules) check_weights(jobs[1], {.rule = rule, .weight_decay = 0, .largest_rate = 1e-3});
}

TEST_CASE("a step is predicted by the bytes that its passes move, on the rank with the most work", "[optim]") {
  constexpr int ranks = 3;
  const std::vector<OptimizedLayer> layers = {{.name = "a", .count = 2 * optim::block_elements},
                                              {.name = "b", .count = optim::block_elements}};
  const auto close = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  for (const OptimizerRule rule : rules) {
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      const auto predicted = [&](OperatorDivision division) {
        return LayerOptimizer(comm, {.rule = rule, .norms = division, .update = division}, layers).state()->predicted();
      };
      const optim::StepCost each = predicted(OperatorDivision::replicated), divided = predicted(OperatorDivision::all);
      check.that(close(each.update / each.norms, rule == OptimizerRule::lars ? 20.0 / 8 : 16.0 / 24), "passes");
      check.that(close(divided.norms, each.norms / ranks) && close(divided.update, each.update / ranks), "a third of the work");
      check.that(divided.gather > each.gather && each.gather > 0, "gathering");
      check.that(close(each.seconds(), each.norms + each.update + each.gather), "sum");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an optimizer goes on from a saved state", "[optim]") {
  const std::vector<OptimizedLayer> layers = odd_layers();
  for (const OptimizerRule rule : rules) {
    for (const OperatorDivision update : updates) {
      const OptimizerConfig config{.rule = rule, .update = update};
      const Arrays right = right_weights(config, layers);
      RankCheck check;
      run_ranks(3, [&](Communicator& comm) {
        Arrays weights = arrays_of(layers, 0, 1);
        std::vector<std::byte> state;
        {
          LayerOptimizer first(comm, config, layers);
          for (int t = 0; t < steps / 2; ++t) step(first, weights, layers, t);
          state.resize(static_cast<std::size_t>(first.state_bytes()));
          first.save_state(state);
        }
        LayerOptimizer second(comm, config, layers);
        step(second, weights, layers, 9);  // the restored state replaces this
        weights = arrays_of(layers, 0, 1);
        second.reset();
        for (int t = 0; t < steps / 2; ++t) step(second, weights, layers, t);
        second.restore_state(state);
        for (int t = steps / 2; t < steps; ++t) step(second, weights, layers, t);
        check.that(weights == right, "weights");
      });
      INFO("rule " << static_cast<int>(rule) << " update " << static_cast<int>(update));
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a number of steps that makes no sense is refused, and changes nothing", "[optim]") {
  RankCheck check;
  run_ranks(1, [&](Communicator& comm) {
    const std::vector<OptimizedLayer> layers = odd_layers();
    LayerOptimizer optimizer(comm, {.rule = OptimizerRule::lamb}, layers);
    Arrays weights = arrays_of(layers, 0, 1);
    step(optimizer, weights, layers, 0);
    SavedState saved = save_state(*optimizer.state());
    const auto error_of = [&](std::int64_t restored) -> std::string {
      for (StateField& field : saved.fields)
        if (field.name == "steps") std::memcpy(field.bytes.data(), &restored, sizeof restored);
      try {
        restore_state(*optimizer.state(), saved, "optimizer");
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    constexpr std::int64_t most = std::int64_t{1} << 53;
    for (const std::int64_t wrong : {std::int64_t{-1}, most + 1, std::numeric_limits<std::int64_t>::max()}) {
      const std::string error = error_of(wrong);
      check.that(error.find("steps") != std::string::npos && error.find("from 0 to 2^53") != std::string::npos, error);
    }
    step(optimizer, weights, layers, 1);
    check.that(optimizer.statistics().steps == 2, "steps after states that were refused");
    check.that(error_of(most).empty(), "as many as there may be");
    step(optimizer, weights, layers, 2);
    check.that(optimizer.statistics().steps == most + 1, "steps");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("bad layers and bad steps are told on all ranks alike", "[optim]") {
  constexpr int ranks = 3;
  SameErrors errors(ranks);
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const auto refused = [&](weir_status status, const char* text, const OptimizerConfig& config,
                             const std::vector<OptimizedLayer>& layers) {
      errors.expect(comm.rank(), status, text, [&] { LayerOptimizer(comm, config, layers); });
    };
    refused(WEIR_ERR_ARGUMENT, "layer 1: its name, 'a', is that of an earlier one", {}, {{.name = "a"}, {.name = "a"}});
    refused(WEIR_ERR_ARGUMENT, "layer 'a': count is -3", {}, {{.name = "a", .count = -3}});
    refused(WEIR_ERR_ARGUMENT, "layer 0: its name is ''", {}, {{.name = "", .count = 3}});
    for (const char* name : {"a/b", "a\nb: count 3, excluded 0", "a\r", "\t", ".", ".."}) {
      const std::string text = std::string("rank 2: layer 1: its name is '") + name + "': it must have at least one character";
      refused(WEIR_ERR_ARGUMENT, text.c_str(), {}, {{.name = "a"}, {.name = comm.rank() == 2 ? name : "b", .count = 3}});
    }
    refused(WEIR_ERR_ARGUMENT, "momentum is 1", {.momentum = 1}, {{.name = "a", .count = 3}});
    for (const double epsilon : {0.0, 1e-50, 1e39})
      refused(WEIR_ERR_ARGUMENT, "epsilon is ", {.rule = OptimizerRule::lamb, .epsilon = epsilon}, {{.name = "a", .count = 3}});
    refused(WEIR_ERR_MISMATCH, "disagree about layers", {}, {{.name = "a", .count = 3 + comm.rank()}});
    for (const OptimizerRule rule : rules) {
      for (const OperatorDivision update : updates) {
        const std::vector<OptimizedLayer> layers = odd_layers();
        LayerOptimizer optimizer(comm, {.rule = rule, .update = update, .name = "net"}, layers);
        Arrays weights = arrays_of(layers, 0, 1), gradients = arrays_of(layers, 1, 1);
        std::vector<float*> w = pointers_of(weights), g = pointers_of(gradients);
        std::vector<const float*> read(g.begin(), g.end());
        if (comm.rank() == 1) read[3] = nullptr;
        errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "optimizer 'net', rank 1, layer 'wide'",
                      [&] { optimizer.step(w, read, 0.1); });
        read[3] = g[3];
        errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "rank 2: learning_rate is",
                      [&] { optimizer.step(w, read, comm.rank() == 2 ? std::nan("") : 0.1); });
        const Arrays before = weights;
        gradients[3][70000] = std::numeric_limits<float>::infinity();
        errors.expect(comm.rank(), WEIR_ERR_NON_FINITE, "layer 'wide'", [&] { optimizer.step(w, read, 0.1); });
        check.that(weights == before, "weights after a step that was refused");
      }
    }
  });
  REQUIRE(errors.failure() == "");
  REQUIRE(check.failure() == "");
}

TEST_CASE("a step for which another rank does not come breaks the optimizer, and nothing else", "[optim]") {
  for (const OptimizerRule rule : rules) {
    RankCheck check;
    std::barrier<> together(2);
    run_ranks(2,
              [&](Communicator& comm) {
                const std::vector<OptimizedLayer> layers = odd_layers();
                {
                  LayerOptimizer optimizer(comm, {.rule = rule, .update = OperatorDivision::all}, layers);
                  Arrays weights = arrays_of(layers, 0, 1);
                  const auto status_of = [&](int t) {
                    try {
                      step(optimizer, weights, layers, t);
                    } catch (const Error& error) {
                      return error.status();
                    }
                    return WEIR_OK;
                  };
                  check.that(status_of(0) == WEIR_OK, "the first step");
                  set_timeout(comm, 0.3);
                  if (comm.rank() == 0) {
                    check.that(status_of(1) == WEIR_ERR_TIMEOUT, "a step alone");
                    check.that(status_of(2) == WEIR_ERR_STATE, "the step after that");
                  }
                  together.arrive_and_wait();
                }
                together.arrive_and_wait();
              },
              {.settings = {.log = LogLevel::error}});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a step in the steady state allocates nothing", "[optim]") {
  RankCheck check;
  for (const OperatorDivision update : updates) {
    run_ranks(4, [&](Communicator& comm) {
      const std::vector<OptimizedLayer> layers = odd_layers();
      LayerOptimizer optimizer(comm, {.update = update}, layers);
      Arrays weights = arrays_of(layers, 0, 1), gradients = arrays_of(layers, 1, 1);
      const std::vector<float*> w = pointers_of(weights), g = pointers_of(gradients);
      const std::vector<const float*> read(g.begin(), g.end());
      for (int t = 0; t < 3; ++t) optimizer.step(w, read, 0.1);
      const std::int64_t before = allocations_of_this_thread();
      for (int t = 0; t < 3; ++t) optimizer.step(w, read, 0.1);
      check.that(allocations_of_this_thread() == before, "allocations");
    });
  }
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
