// LARS and LAMB against loops written from the papers, bit for bit, whoever does which part of the work.
#include <barrier>
#include <cmath>
#include <numeric>
#include <weir/optim.hpp>

#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

using Arrays = std::vector<std::vector<float>>;

constexpr std::array rules = {OptimizerRule::lars, OptimizerRule::lamb};
constexpr std::array updates = {OperatorDivision::automatic, OperatorDivision::replicated, OperatorDivision::node,
                                OperatorDivision::all};

struct Job {
  int ranks;
  const char* machine;
};
constexpr std::array jobs = {Job{1, ""},          Job{2, ""}, Job{3, "node:3 rank:1"},
                             Job{5, "nodes:2,3"}, Job{7, ""}, Job{33, "node:11 rank:3"}};

/// Of one block, of several, of odd ends, and of nothing.
std::vector<OptimizedLayer> odd_layers() {
  return {{.name = "stem", .count = 300},    {.name = "bias", .count = 17, .excluded = true},
          {.name = "empty", .count = 0},     {.name = "wide", .count = 3 * 65536 + 5},
          {.name = "block", .count = 65536}, {.name = "scalar", .count = 1},
          {.name = "zero", .count = 40}};
}

Arrays arrays_of(const std::vector<OptimizedLayer>& layers, int t, float scale) {
  Arrays arrays;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    arrays.push_back(make_input<float>(Input::heavy_tailed, layers[i].count, 0, 1, t * 100 + static_cast<int>(i)));
    for (float& x : arrays.back()) x *= layers[i].name == "zero" ? 0 : scale;
  }
  return arrays;
}

std::vector<float*> pointers_of(Arrays& arrays) {
  std::vector<float*> pointers;
  for (auto& array : arrays) pointers.push_back(array.data());
  return pointers;
}

/// The layer's norm by the order of additions that LayerOptimizer promises.
double norm_of(const std::vector<float>& x) {
  double all = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += 65536) {
    double partial[16] = {};
    for (std::size_t i = begin; i < std::min(x.size(), begin + 65536); ++i)
      partial[(i - begin) % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (int distance = 8; distance > 0; distance /= 2)
      for (int j = 0; j < distance; ++j) partial[j] += partial[j + distance];
    all += partial[0];
  }
  return std::sqrt(all);
}

/// The papers' loops.
class Reference {
 public:
  Reference(const OptimizerConfig& config, const std::vector<OptimizedLayer>& layers) : c_(config), layers_(layers) {
    for (const OptimizedLayer& layer : layers) {
      first_.emplace_back(static_cast<std::size_t>(layer.count));
      second_.emplace_back(static_cast<std::size_t>(layer.count));
    }
  }

  void step(Arrays& weights, const Arrays& gradients, double learning_rate) {
    ++t_;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      c_.rule == OptimizerRule::lars ? lars(i, weights[i], gradients[i], learning_rate)
                                     : lamb(i, weights[i], gradients[i], learning_rate);
  }

 private:
  [[nodiscard]] double limited(std::size_t layer, double w, double other, double rate) const {
    if (layers_[layer].excluded || w == 0 || other == 0) return 1;
    return c_.largest_rate > 0 ? std::min(rate, c_.largest_rate) : rate;
  }

  void lars(std::size_t layer, std::vector<float>& w, const std::vector<float>& g, double learning_rate) {
    const double of_w = norm_of(w), of_g = norm_of(g);
    const double rate = limited(layer, of_w, of_g, c_.trust_coefficient * of_w / (of_g + c_.weight_decay * of_w));
    const auto step = static_cast<float>(learning_rate * rate), momentum = static_cast<float>(c_.momentum);
    const float decay = layers_[layer].excluded ? 0 : static_cast<float>(c_.weight_decay);
    std::vector<float>& v = first_[layer];
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float decayed = decay * w[i], old = momentum * v[i], sum = g[i] + decayed, now = step * sum;
      v[i] = old + now;
      w[i] -= v[i];
    }
  }

  void lamb(std::size_t layer, std::vector<float>& w, const std::vector<float>& g, double learning_rate) {
    const auto beta1 = static_cast<float>(c_.beta1), beta2 = static_cast<float>(c_.beta2), epsilon = static_cast<float>(c_.epsilon);
    const auto correction1 = static_cast<float>(1 - std::pow(c_.beta1, t_));
    const auto correction2 = static_cast<float>(std::sqrt(1 - std::pow(c_.beta2, t_)));
    const float decay = layers_[layer].excluded ? 0 : static_cast<float>(c_.weight_decay);
    std::vector<float> u(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      float& m = first_[layer][i];
      float& v = second_[layer][i];
      const float kept1 = beta1 * m, new1 = (1 - beta1) * g[i], kept2 = beta2 * v, new2 = (1 - beta2) * g[i] * g[i];
      m = kept1 + new1;
      v = kept2 + new2;
      const float root = std::sqrt(v) / correction2, direction = m / correction1 / (root + epsilon), decayed = decay * w[i];
      u[i] = direction + decayed;
    }
    const double of_w = norm_of(w), of_u = norm_of(u);
    const auto step = static_cast<float>(learning_rate * limited(layer, of_w, of_u, of_w / of_u));
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float moved = step * u[i];
      w[i] -= moved;
    }
  }

  OptimizerConfig c_;
  std::vector<OptimizedLayer> layers_;
  Arrays first_, second_;
  double t_ = 0;
};

constexpr int steps = 4;
double learning_rate_of(int t) { return 0.5 / (1 + t); }

Arrays right_weights(const OptimizerConfig& config, const std::vector<OptimizedLayer>& layers) {
  Arrays weights = arrays_of(layers, 0, 1);
  Reference reference(config, layers);
  for (int t = 0; t < steps; ++t) reference.step(weights, arrays_of(layers, 1 + t, 0.1F), learning_rate_of(t));
  return weights;
}

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
      for (const OperatorDivision update : updates) check_weights(job, {.rule = rule, .weight_decay = 1e-2, .update = update});
    }
  }
}

TEST_CASE("rates are limited where one asks", "[optim]") {
  for (const OptimizerRule rule : rules) check_weights(jobs[1], {.rule = rule, .weight_decay = 0, .largest_rate = 1e-3});
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
        step(second, weights, layers, 9);  // forgotten by what follows
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
    refused(WEIR_ERR_ARGUMENT, "momentum is 1", {.momentum = 1}, {{.name = "a", .count = 3}});
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
                  if (comm.rank() == 0) {
                    check.that(status_of(1) == WEIR_ERR_TIMEOUT, "a step alone");
                    check.that(status_of(2) == WEIR_ERR_STATE, "the step after that");
                  }
                  together.arrive_and_wait();
                }
                together.arrive_and_wait();
              },
              {.settings = {.timeout_seconds = 0.3, .log = LogLevel::error}});
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
