// test_elastic_optimizer.cpp: LARS, LAMB and sparse Adam continue bit for bit with other ranks, other nodes, and another division
// of the update.
#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <weir/checkpoint.hpp>
#include <weir/optim.hpp>
#include <weir/sparse_adam.hpp>

#include "base/config_check.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// One array per layer, of float or of 16 bits (bfloat16).
template <class T>
using Arrays = std::vector<std::vector<T>>;

struct Job {
  int ranks;
  const char* machine;
  OperatorDivision update;
};
struct Change {
  Job from, to;
};
constexpr auto replicated = OperatorDivision::replicated, node = OperatorDivision::node, all = OperatorDivision::all,
               automatic = OperatorDivision::automatic;
constexpr std::array changes = {Change{{4, "", all}, {4, "", all}},
                                Change{{4, "", replicated}, {4, "", replicated}},
                                Change{{4, "", replicated}, {4, "", all}},
                                Change{{4, "", all}, {4, "", replicated}},
                                Change{{4, "", all}, {3, "", all}},
                                Change{{7, "", automatic}, {1, "", automatic}},
                                Change{{1, "", replicated}, {5, "", all}},
                                Change{{3, "", replicated}, {33, "", all}},
                                Change{{33, "", all}, {2, "", replicated}},
                                Change{{33, "", replicated}, {2, "", all}},
                                Change{{6, "node:2 rank:3", node}, {8, "node:4 rank:2", node}},
                                Change{{6, "node:2 rank:3", node}, {6, "node:3 rank:2", node}},
                                Change{{5, "nodes:2,3", node}, {7, "nodes:4,3", all}},
                                Change{{4, "node:4 rank:1", node}, {4, "node:2 rank:2", node}},
                                Change{{1, "", all}, {5, "nodes:2,3", node}}};

/// Returns layers of several blocks, of one block, and of no elements.
const std::vector<OptimizedLayer>& layers() {
  static const std::vector<OptimizedLayer> all_layers = {{.name = "stem: count 3", .count = 300},
                                                         {.name = "bias", .count = 17, .excluded = true},
                                                         {.name = "empty", .count = 0},
                                                         {.name = "wide", .count = 3 * 65536 + 5},
                                                         {.name = "scalar", .count = 1}};
  return all_layers;
}

template <class T = float>
OptimizerConfig config_of(OptimizerRule rule, OperatorDivision update) {
  return {.rule = rule,
          .weight_decay = 0.01,
          .update = update,
          .type = std::is_same_v<T, float> ? DataType::float32 : DataType::bfloat16};
}

template <class T>
Arrays<T> arrays_of(int t) {
  Arrays<T> arrays;
  for (std::size_t i = 0; i < layers().size(); ++i) {
    const std::vector<float> wide = make_input<float>(Input::heavy_tailed, layers()[i].count, 0, 1, t * 100 + static_cast<int>(i));
    if constexpr (std::is_same_v<T, float>) {
      arrays.push_back(wide);
    } else {
      arrays.emplace_back();
      for (const float x : wide) arrays.back().push_back(static_cast<T>(std::bit_cast<std::uint32_t>(x) >> 16));
    }
  }
  return arrays;
}

template <class T>
void train(LayerOptimizer& optimizer, Arrays<T>& weights, int from, int to) {
  for (int t = from; t < to; ++t) {
    const Arrays<T> gradients = arrays_of<T>(t);
    std::vector<void*> w;
    std::vector<const void*> g;
    for (std::size_t i = 0; i < weights.size(); ++i) w.push_back(weights[i].data()), g.push_back(gradients[i].data());
    optimizer.step_raw(w, g, 0.1 / (1 + t));
  }
}

template <class T>
bool same(const Arrays<T>& a, const Arrays<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::ranges::equal(std::as_bytes(std::span(a[i])), std::as_bytes(std::span(b[i])))) return false;
  }
  return true;
}

/// Adds the weights as bytes: a checkpoint has no type for bfloat16.
template <class T>
void add_weights(Checkpoint& checkpoint, Arrays<T>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(weights[i]));
    checkpoint.add_replicated("weights." + std::to_string(i),
                              std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
  }
}

/// Returns the weights after `steps` uninterrupted steps of one rank.
template <class T>
Arrays<T> never_stopped(OptimizerRule rule, int steps) {
  Arrays<T> weights = arrays_of<T>(1000);
  run_ranks(1, [&](Communicator& comm) {
    LayerOptimizer optimizer(comm, config_of<T>(rule, replicated), layers());
    train(optimizer, weights, 0, steps);
  });
  return weights;
}

}  // namespace

TEMPLATE_TEST_CASE("optimizers go on bit for bit with any ranks and any division", "[checkpoint][optim]", float, std::uint16_t) {
  using T = TestType;
  constexpr int before = 3, after = 6;
  for (const OptimizerRule rule : {OptimizerRule::lars, OptimizerRule::lamb}) {
    Arrays<T> expected;
    const std::int64_t elements = std::accumulate(layers().begin(), layers().end(), std::int64_t{0},
                                                  [](std::int64_t sum, const OptimizedLayer& layer) { return sum + layer.count; });
    for (const Change& change : changes) {
      if (left_out(4)) continue;
      if (expected.empty()) expected = never_stopped<T>(rule, after);
      const TemporaryFolder folder;
      RankCheck check;
      std::vector<std::int64_t> bytes(static_cast<std::size_t>(change.from.ranks));
      run_ranks(change.from.ranks,
                [&](Communicator& comm) {
                  Arrays<T> weights = arrays_of<T>(1000);
                  LayerOptimizer optimizer(comm, config_of<T>(rule, change.from.update), layers());
                  train(optimizer, weights, 0, before);
                  Checkpoint checkpoint(comm, {.folder = folder.path()});
                  checkpoint.add("optimizer", optimizer);
                  add_weights(checkpoint, weights);
                  checkpoint.save(before).wait();
                  bytes[static_cast<std::size_t>(comm.rank())] = checkpoint.statistics().snapshot_bytes;
                },
                {.machine = change.from.machine});
      run_ranks(change.to.ranks,
                [&](Communicator& comm) {
                  Arrays<T> weights = arrays_of<T>(7);
                  LayerOptimizer optimizer(comm, config_of<T>(rule, change.to.update), layers());
                  train(optimizer, weights, 0, 1);  // the restored state replaces this
                  Checkpoint checkpoint(comm, {.folder = folder.path()});
                  checkpoint.add("optimizer", optimizer);
                  add_weights(checkpoint, weights);
                  check.that(checkpoint.restore() == before, "the step");
                  train(optimizer, weights, before, after);
                  check.that(optimizer.statistics().steps == after, "the number of steps");
                  check.that(same(weights, expected), "weights of rank " + std::to_string(comm.rank()));
                },
                {.machine = change.to.machine});
      INFO(name_of(rule) << ": " << change.from.ranks << " ranks on '" << change.from.machine << "', "
                         << name_of(change.from.update) << ", to " << change.to.ranks << " on '" << change.to.machine << "', "
                         << name_of(change.to.update));
      REQUIRE(check.failure() == "");
      // The file has weights and optimizer state once, for any number of ranks, and a little data of each rank.
      const std::int64_t moments = rule == OptimizerRule::lamb ? 2 : 1;
      const std::int64_t each = 4 * moments + (sizeof(T) == 4 ? 4 : 2 + 4);
      REQUIRE(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) <= each * elements + 2000 * change.from.ranks);
    }
  }
}

TEST_CASE("an optimizer of other layers or of another rule is refused, and stays as it was", "[checkpoint][optim]") {
  const auto other_name = [](std::vector<OptimizedLayer>& l) { l[3].name = "wider"; };
  const auto other_count = [](std::vector<OptimizedLayer>& l) { l[3].count += 1; };
  const auto more = [](std::vector<OptimizedLayer>& l) { l.push_back({.name = "head", .count = 3}); };
  const auto fewer = [](std::vector<OptimizedLayer>& l) { l.pop_back(); };
  const auto excluded = [](std::vector<OptimizedLayer>& l) { l[0].excluded = true; };
  struct Case {
    std::function<void(std::vector<OptimizedLayer>&)> change;
    OptimizerRule rule;
    const char* text;
  };
  const Case cases[] = {{other_name, OptimizerRule::lars, "optimizer 'o': field 'layer/wider/first': the file has none"},
                        {other_count, OptimizerRule::lars, "optimizer 'o': field 'layer/wide/first': the whole has 196613 x 1"},
                        {more, OptimizerRule::lars, "optimizer 'o': field 'layer/head/first': the file has none"},
                        {fewer, OptimizerRule::lars, "optimizer 'o': field 'layers': line 5 is 'scalar: count 1"},
                        {excluded, OptimizerRule::lars, "optimizer 'o': field 'layers': line 1 is 'stem: count 3: count 300"},
                        {{}, OptimizerRule::lamb, "optimizer 'o': field 'layer/stem: count 3/second': the file has none"}};
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    LayerOptimizer optimizer(comm, config_of(OptimizerRule::lars, all), layers());
    Checkpoint checkpoint(comm, {.folder = folder.path()});
    checkpoint.add("o", optimizer);
    checkpoint.save(0).wait();
    for (const Case& one : cases) {
      std::vector<OptimizedLayer> others = layers();
      if (one.change) one.change(others);
      LayerOptimizer other(comm, config_of(one.rule, all), others);
      Checkpoint again(comm, {.folder = folder.path()});
      again.add("o", other);
      std::vector<std::byte> state(static_cast<std::size_t>(other.state_bytes())), now(state.size());
      other.save_state(state);
      std::string text;
      try {
        again.restore();
      } catch (const Error& error) {
        text = error.what();
        check.that(error.status() == WEIR_ERR_MISMATCH, text);
      }
      check.that(text.find(one.text) != std::string::npos, text);
      other.save_state(now);
      check.that(state == now, text);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("a checkpoint saves no optimizer that is gone", "[checkpoint][optim]") {
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    Checkpoint checkpoint(comm, {.folder = folder.path()});
    {
      LayerOptimizer optimizer(comm, {}, layers());
      checkpoint.add("o", optimizer);
    }
    std::string text;
    try {
      checkpoint.save(0).wait();
    } catch (const Error& error) {
      text = error.what();
      check.that(error.status() == WEIR_ERR_STATE, text);
    }
    check.that(text.find("optimizer 'o' was destroyed") != std::string::npos, text);
  });
  REQUIRE(check.failure() == "");
}

namespace {

/// Trains with updates in which entry i comes every i % 5 + 1 steps.
void train(SparseAdam& adam, std::vector<float>& weights, int from, int to) {
  for (int t = from; t < to; ++t) {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    for (std::uint32_t i = 0; i < weights.size(); ++i)
      if (static_cast<std::uint32_t>(t) % (i % 5 + 1) == 0) indices.push_back(i), values.push_back(static_cast<float>(i % 9) - 4);
    adam.step({indices, values}, weights, 0.01 / (1 + t));
  }
}

}  // namespace

TEST_CASE("sparse Adam goes on bit for bit with any ranks", "[checkpoint][optim]") {
  constexpr int before = 4, after = 9;
  // The counts take more than one chunk, less than one chunk, and no chunk.
  for (const std::int64_t count : {std::int64_t{300007}, std::int64_t{5}, std::int64_t{0}}) {
    for (const bool exact : {false, true}) {
      const SparseAdamConfig config{.count = count, .exact = exact};
      std::vector<float> expected(static_cast<std::size_t>(count), 1);
      SparseAdam never_stopped(config);
      train(never_stopped, expected, 0, after);
      for (const auto& [from, to] : {std::pair{1, 1}, {1, 4}, {4, 4}, {3, 7}, {7, 2}, {5, 1}}) {
        if (left_out()) continue;
        const TemporaryFolder folder;
        RankCheck check;
        std::vector<std::int64_t> bytes(static_cast<std::size_t>(from));
        run_ranks(from, [&](Communicator& comm) {
          std::vector<float> weights(static_cast<std::size_t>(count), 1);
          SparseAdam adam(config);
          train(adam, weights, 0, before);
          Checkpoint checkpoint(comm, {.folder = folder.path()});
          checkpoint.add("adam", adam);
          checkpoint.add_replicated("weights", std::span(weights));
          checkpoint.save(before).wait();
          bytes[static_cast<std::size_t>(comm.rank())] = checkpoint.statistics().snapshot_bytes;
        });
        run_ranks(to, [&](Communicator& comm) {
          std::vector<float> weights(static_cast<std::size_t>(count), 7);
          SparseAdam adam(config);
          train(adam, weights, 0, 1);  // the restored state replaces this
          Checkpoint checkpoint(comm, {.folder = folder.path()});
          checkpoint.add("adam", adam);
          checkpoint.add_replicated("weights", std::span(weights));
          check.that(checkpoint.restore() == before && adam.steps() == before, "the step");
          train(adam, weights, before, after);
          check.that(weights == expected, "weights of rank " + std::to_string(comm.rank()));
        });
        INFO(count << " weights, exact " << exact << ", " << from << " ranks, to " << to);
        REQUIRE(check.failure() == "");
        // The file has weights and moments once, for any number of ranks, and a little data of each rank.
        REQUIRE(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) <= (exact ? 12 : 16) * count + 2000 * from);
      }
    }
  }
}

TEST_CASE("sparse Adam that does not fit a checkpoint is refused", "[checkpoint][optim]") {
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    Checkpoint checkpoint(comm, {.folder = folder.path()});
    const auto refused = [&](Checkpoint& with, weir_status status, const char* text, const auto& call) {
      std::string heard;
      try {
        call(with);
      } catch (const Error& error) {
        heard = error.what();
        check.that(error.status() == status, heard);
      }
      check.that(heard.find(text) != std::string::npos, heard);
    };
    const auto save = [](Checkpoint& with) { with.save(0).wait(); };
    const auto restore = [](Checkpoint& with) { static_cast<void>(with.restore()); };
    std::vector<float> weights(10);
    {
      SparseAdam adam({.count = 10});
      checkpoint.add("a", adam);
      save(checkpoint);
      if (comm.rank() == 1) adam.step_part({}, weights, 0.1);
      refused(checkpoint, WEIR_ERR_BUSY, "between the parts of a step", save);
      for (const SparseAdamConfig& config : {SparseAdamConfig{.count = 11}, SparseAdamConfig{.count = 10, .exact = true}}) {
        SparseAdam other(config);
        Checkpoint again(comm, {.folder = folder.path()});
        again.add("a", other);
        refused(again, WEIR_ERR_MISMATCH, "optimizer 'a': field", restore);
      }
      LayerOptimizer layered(comm, {}, layers());
      Checkpoint again(comm, {.folder = folder.path()});
      again.add("a", layered);
      refused(again, WEIR_ERR_MISMATCH, "optimizer 'a': field", restore);
    }
    refused(checkpoint, WEIR_ERR_STATE, "optimizer 'a' was destroyed", save);
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
