// Sparse Adam against dense Adam written from the paper. With `exact` they are equal bit for bit. Without it, moments are equal up
// to rounding, and weights are within the bound that weir/sparse_adam.hpp states.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "base/state.hpp"
#include "optim/sparse_adam.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

using Entries = std::map<std::uint32_t, float>;

/// An update in its own memory.
class Update {
 public:
  explicit Update(const Entries& entries) {
    for (const auto& [index, value] : entries) indices_.push_back(index), values_.push_back(value);
  }
  [[nodiscard]] SparseView<float> view() const { return {indices_, values_}; }

 private:
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
};

/// The paper's loops over all weights, with every operation rounded separately.
class DenseAdam {
 public:
  explicit DenseAdam(const SparseAdamConfig& config)
      : first(static_cast<std::size_t>(config.count)), second(static_cast<std::size_t>(config.count)), c_(config) {}

  void step(const Entries& update, std::vector<float>& weights, double learning_rate) {
    ++t_;
    const auto beta1 = static_cast<float>(c_.beta1), beta2 = static_cast<float>(c_.beta2), epsilon = static_cast<float>(c_.epsilon);
    const auto correction1 = static_cast<float>(1 - std::pow(c_.beta1, t_));
    const auto correction2 = static_cast<float>(std::sqrt(1 - std::pow(c_.beta2, t_)));
    const auto rate = static_cast<float>(learning_rate);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto found = update.find(static_cast<std::uint32_t>(i));
      const float g = found == update.end() ? 0 : found->second;
      const float kept1 = beta1 * first[i], new1 = (1 - beta1) * g, kept2 = beta2 * second[i], new2 = (1 - beta2) * g * g;
      first[i] = kept1 + new1;
      second[i] = kept2 + new2;
      const float root = std::sqrt(second[i]) / correction2, moved = rate * (first[i] / correction1 / (root + epsilon));
      weights[i] -= moved;
    }
  }

  std::vector<float> first, second;

 private:
  SparseAdamConfig c_;
  double t_ = 0;
};

constexpr double rate = 0.125;

Entries every(std::int64_t count, const std::function<bool(std::uint32_t)>& has, int t) {
  const std::vector<float> values = make_input<float>(Input::heavy_tailed, count, 0, 1, t);
  Entries entries;
  for (std::uint32_t i = 0; i < count; ++i)
    if (has(i)) entries[i] = values[i];
  return entries;
}

/// Returns the update of step t. Entry i comes every i % 7 + 1 steps, the last one never. Some steps have no entries, some have
/// all.
Entries update_of(std::int64_t count, int t) {
  return every(
      count,
      [&](std::uint32_t i) {
        return t % 10 != 3 && (t % 10 == 7 || (i + 1 < count && static_cast<std::uint32_t>(t) % (i % 7 + 1) == 0));
      },
      t);
}

std::vector<float> weights_of(std::int64_t count) { return make_input<float>(Input::heavy_tailed, count, 0, 1, 1000); }

template <class V>
std::vector<V> field_of(const SparseAdam& adam, std::string_view name) {
  const SavedState saved = save_state(*adam.state());
  const StateField* const field = saved.find(name);
  REQUIRE(field != nullptr);
  std::vector<V> values(static_cast<std::size_t>(field->count));
  if (!values.empty()) std::memcpy(values.data(), field->bytes.data(), values.size() * sizeof(V));
  return values;
}

/// Returns the largest distance that dense Adam moves a weight in `idle` steps without a gradient.
double most_moved(const SparseAdamConfig& c, double learning_rate, double idle) {
  const double q = c.beta1 / std::sqrt(c.beta2), largest = (1 - c.beta1) / std::sqrt((1 - c.beta2) * (1 - q * q));
  return learning_rate * largest * q * (1 - std::pow(q, idle)) / (1 - q);
}

/// Checks an entry 0 that has a gradient, then no gradient for `idle` steps, then another one.
void check_return(int idle, float epsilon) {
  const SparseAdamConfig config{.count = 3, .epsilon = epsilon};
  SparseAdam adam(config);
  DenseAdam dense(config);
  std::vector<float> weights(3, 1), right(3, 1);
  const auto both = [&](const Entries& entries) {
    adam.step(Update(entries).view(), weights, rate);
    dense.step(entries, right, rate);
  };
  for (int t = 0; t < 5; ++t) both({{0, 0.5F}, {1, -1.0F}});
  for (int t = 0; t < idle; ++t) both({{1, 1.0F / static_cast<float>(t + 1)}});
  const float before = weights[0];
  REQUIRE(std::abs(before - right[0]) <= 1.001 * most_moved(config, rate, idle));
  both({{0, 0.25F}});
  INFO("idle " << idle);
  const auto near = [&](float x, float y) { return std::abs(x - y) <= 1e-6F * static_cast<float>(idle + 1) * std::abs(y); };
  REQUIRE(near(field_of<float>(adam, "first")[0], dense.first[0]));
  REQUIRE(near(field_of<float>(adam, "second")[0], dense.second[0]));
  const double t = idle + 6;
  const double m = dense.first[0] / (1 - std::pow(0.9, t)), v = dense.second[0] / (1 - std::pow(0.999, t));
  REQUIRE(std::abs(before - weights[0] - rate * m / (std::sqrt(v) + epsilon)) < 1e-4 * rate);
}

}  // namespace

TEST_CASE("powers by tables are those of std::pow", "[optim]") {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 0.999999, 1 - 0x1p-24}) {
    const optim::Powers powers(base);
    for (const std::uint32_t n : {0U, 1U, 2U, 255U, 256U, 257U, 65535U, 65536U, 1000000U, 0x01000000U, 0xffffffffU}) {
      INFO(base << " to the " << n);
      const double right = std::pow(base, n);
      REQUIRE(std::abs(powers.of(n) - right) <= 1e-12 * right + std::numeric_limits<double>::min());
    }
  }
  REQUIRE(static_cast<float>(optim::Powers(0.9F).of(1)) == 0.9F);
}

TEST_CASE("exact sparse Adam is dense Adam, bit for bit", "[optim]") {
  for (const std::int64_t count : {0, 1, 2, 17, 1000, 3001}) {
    const SparseAdamConfig config{.count = count, .exact = true};
    SparseAdam adam(config);
    DenseAdam dense(config);
    std::vector<float> weights = weights_of(count), right = weights;
    for (int t = 0; t < 25; ++t) {
      adam.step(Update(update_of(count, t)).view(), weights, rate / (t + 1));
      dense.step(update_of(count, t), right, rate / (t + 1));
    }
    INFO("count " << count);
    REQUIRE(weights == right);
    REQUIRE(adam.steps() == 25);
  }
}

TEST_CASE("weights that every update touches step as dense Adam steps them, bit for bit", "[optim]") {
  for (const std::int64_t count : {1, 17, 1024, 3001}) {
    SparseAdam adam({.count = count});
    DenseAdam dense({.count = count});
    std::vector<float> weights = weights_of(count), right = weights;
    for (int t = 0; t < 10; ++t) {
      const Entries all = every(
          count, [](std::uint32_t) { return true; }, t);
      adam.step(Update(all).view(), weights, rate);
      dense.step(all, right, rate);
    }
    REQUIRE(weights == right);
  }
}

TEST_CASE("moments are dense Adam's, and weights as far from its as the header says", "[optim]") {
  constexpr std::int64_t count = 3001;
  for (const SparseAdamConfig& config :
       {SparseAdamConfig{.count = count}, SparseAdamConfig{.count = count, .beta1 = 0, .beta2 = 0.5},
        SparseAdamConfig{.count = count, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3}}) {
    SparseAdam adam(config);
    DenseAdam dense(config);
    std::vector<float> weights = weights_of(count), right = weights;
    std::vector<double> bound(count, 0);
    std::vector<int> last(count, -1);
    for (int t = 0; t < 40; ++t) {
      const Entries update = update_of(count, t);
      const std::vector<float> before = weights;
      adam.step(Update(update).view(), weights, rate);
      dense.step(update, right, rate);
      const std::vector<float> first = field_of<float>(adam, "first"), second = field_of<float>(adam, "second");
      bool same = true, near = true, within = true;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (!update.contains(i)) {
          same = same && weights[i] == before[i];
        } else {
          if (last[i] >= 0) bound[i] += most_moved(config, rate, t - last[i] - 1);
          last[i] = t;
          near = near && std::abs(first[i] - dense.first[i]) <= 2e-6F * std::abs(dense.first[i]) + 1e-6F * std::abs(update.at(i)) &&
                 std::abs(second[i] - dense.second[i]) <= 2e-6F * dense.second[i];
        }
        const double idle = last[i] < 0 ? 0 : most_moved(config, rate, t - last[i]);
        within = within && std::abs(weights[i] - right[i]) <= 1.001 * (bound[i] + idle) + 1e-4 * (1 + std::abs(right[i]));
      }
      INFO("step " << t << " beta1 " << config.beta1);
      REQUIRE(same);
      REQUIRE(near);
      REQUIRE(within);
    }
  }
}

TEST_CASE("entries come back after any number of steps", "[optim]") {
  for (const int idle : {0, 1, 2, 10, 1000}) {
    check_return(idle, 1e-8F);
    check_return(idle, 1e-2F);
  }
}

TEST_CASE("moments that have decayed to nothing, and steps without number, leave weights finite", "[optim]") {
  const SparseAdamConfig config{.count = 2};
  SparseAdam adam(config);
  std::vector<float> weights(2, 1);
  adam.step(Update({{0, 1e18F}, {1, 1e-30F}}).view(), weights, rate);
  for (int t = 0; t < 300000; ++t) adam.step({}, weights, rate);
  const std::vector<float> before = weights;
  adam.step(Update({{0, 1.0F}}).view(), weights, rate);
  REQUIRE(field_of<float>(adam, "first")[0] == 1 - 0.9F);
  REQUIRE(field_of<float>(adam, "second")[0] == 1 - 0.999F);
  REQUIRE(before[0] - weights[0] == Approx(rate * 0.1 / std::sqrt(0.001)).epsilon(1e-4));
  REQUIRE(weights[1] == before[1]);

  SavedState saved = save_state(*adam.state());
  const auto steps_are = [&](std::int64_t steps) {
    for (StateField& field : saved.fields)
      if (field.name == "steps") std::memcpy(field.bytes.data(), &steps, sizeof steps);
    restore_state(*adam.state(), saved, "optimizer");
  };
  steps_are(4294967294);
  adam.step(Update({{0, 1.0F}, {1, 2.0F}}).view(), weights, rate);
  REQUIRE(adam.steps() == 4294967295);
  REQUIRE(std::isfinite(weights[0]));
  REQUIRE(std::isfinite(weights[1]));
  try {
    adam.step({}, weights, rate);
    FAIL("a step too far");
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_STATE);
  }
  REQUIRE_THROWS_WITH(steps_are(4294967296), ContainsSubstring("steps") && ContainsSubstring("from 0 to 4294967295"));
}

TEST_CASE("an update in parts is one step", "[optim]") {
  constexpr std::int64_t count = 3001;
  for (const bool exact : {false, true}) {
    const SparseAdamConfig config{.count = count, .exact = exact};
    SparseAdam whole(config), parted(config);
    std::vector<float> right = weights_of(count), weights = right;
    for (int t = 0; t < 25; ++t) {
      const Entries update = update_of(count, t);
      std::array<Entries, 3> parts;
      for (const auto& [index, value] : update) parts[(index * 7 + static_cast<std::uint32_t>(t)) % 3][index] = value;
      whole.step(Update(update).view(), right, rate);
      parted.step_part(Update(parts[0]).view(), weights, rate);
      parted.step_part(Update(parts[1]).view(), weights, rate);
      parted.step(Update(parts[2]).view(), weights, rate);
      REQUIRE(weights == right);
      REQUIRE(parted.steps() == t + 1);
    }
  }
}

TEST_CASE("sparse Adam goes on from a saved state", "[optim]") {
  constexpr std::int64_t count = 1000;
  for (const bool exact : {false, true}) {
    const SparseAdamConfig config{.count = count, .exact = exact};
    SparseAdam first(config), second(config);
    std::vector<float> right = weights_of(count), weights = right;
    const auto step = [](SparseAdam& adam, std::vector<float>& w, int t) {
      adam.step(Update(update_of(count, t)).view(), w, rate);
    };
    for (int t = 0; t < 20; ++t) step(first, right, t);
    std::vector<std::byte> state(static_cast<std::size_t>(first.state_bytes()));
    first.save_state(state);
    std::vector<float> went_on = right;
    for (int t = 20; t < 30; ++t) step(first, right, t);
    for (int t = 0; t < 3; ++t) step(second, weights, t);
    second.restore_state(state);
    weights = went_on;
    for (int t = 20; t < 30; ++t) step(second, weights, t);
    REQUIRE(weights == right);

    second.step_part(Update({{1, 1.0F}}).view(), weights, rate);
    REQUIRE_THROWS_WITH(second.state_bytes(), ContainsSubstring("between the parts of a step"));
    second.reset();
    first.reset();
    weights = right;
    for (int t = 0; t < 3; ++t) step(first, right, t), step(second, weights, t);
    REQUIRE(weights == right);
    REQUIRE(second.steps() == 3);

    SparseAdam other({.count = count, .exact = !exact});
    REQUIRE_THROWS_WITH(other.restore_state(state), ContainsSubstring("exact"));
    SparseAdam longer({.count = count + 1, .exact = exact});
    REQUIRE_THROWS_WITH(longer.restore_state(state), ContainsSubstring("count"));
  }
}

TEST_CASE("what makes no sense is told, and changes nothing", "[optim]") {
  const auto refused = [](const char* text, const SparseAdamConfig& config) {
    REQUIRE_THROWS_WITH(SparseAdam(config), ContainsSubstring(text));
  };
  refused("count is -1: it must be between 0 and 4294967295", {.count = -1});
  refused("count is 4294967296", {.count = 4294967296});
  refused("beta1 is 1", {.beta1 = 1});
  refused("beta1 is nan", {.beta1 = std::nan("")});
  refused("beta2 is 0.9999999999", {.beta2 = 0.9999999999});
  refused("epsilon is 0", {.epsilon = 0});
  refused("epsilon is 1e-60", {.epsilon = 1e-60});
  for (const bool exact : {false, true}) {
    SparseAdam adam({.count = 4, .exact = exact, .name = "rows"});
    std::vector<float> weights(4, 1), few(3, 1);
    const std::vector<std::uint32_t> right = {1, 3}, twice = {3, 3}, backwards = {2, 1}, far = {1, 4};
    const std::vector<float> values = {1, 2}, value = {1};
    const auto wrong = [&](const char* text, const SparseView<float>& update, std::span<float> w, double learning_rate) {
      REQUIRE_THROWS_WITH(adam.step(update, w, learning_rate), ContainsSubstring("optimizer 'rows'") && ContainsSubstring(text));
    };
    adam.step({right, values}, weights, rate);
    const std::vector<float> before = weights;
    wrong("there are 3 weights: it has 4", {right, values}, few, rate);
    wrong("learning_rate is inf", {right, values}, weights, std::numeric_limits<double>::infinity());
    wrong("learning_rate is 1e+39", {right, values}, weights, 1e39);
    wrong("2 indices and 1 values", {right, value}, weights, rate);
    wrong("do not ascend", {twice, values}, weights, rate);
    wrong("do not ascend", {backwards, values}, weights, rate);
    wrong("an entry 4: weights are numbered 0 to 3", {far, values}, weights, rate);
    REQUIRE(weights == before);
    REQUIRE(adam.steps() == 1);
    adam.step_part({std::span(right).first(1), value}, weights, rate);
    const std::vector<float> half = weights;
    wrong("entry 1 is in two parts of one step", {right, values}, weights, rate);
    REQUIRE(weights == half);
    adam.step({std::span(right).last(1), value}, weights, rate);
    REQUIRE(adam.steps() == 2);
  }
}

TEST_CASE("all ranks of a plan keep the same weights", "[optim]") {
  constexpr std::int64_t count = 1000;
  for (const int ranks : {1, 3, 5, 7}) {
    std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks), weights_of(count));
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      AllreducePlan plan(comm, {.count = count, .density = 0.05});
      SparseAdam adam({.count = count});
      std::vector<float>& mine = weights[static_cast<std::size_t>(comm.rank())];
      for (int t = 0; t < 10; ++t) {
        plan.run_sparse(make_input<float>(Input::heavy_tailed, count, comm.rank(), ranks, t));
        adam.step(plan.sparse_result<float>(), mine, rate);
      }
    });
    for (const auto& w : weights) REQUIRE(w == weights[0]);
    REQUIRE(weights[0] != weights_of(count));
  }
}

TEST_CASE("a step of sparse Adam allocates nothing", "[optim]") {
  constexpr std::int64_t count = 5000;
  for (const bool exact : {false, true}) {
    SparseAdam adam({.count = count, .exact = exact});
    std::vector<float> weights = weights_of(count);
    const Update part({{0, 1.0F}}), update(every(
                                        count, [](std::uint32_t i) { return i > 0; }, 1));
    const std::int64_t before = allocations_of_this_thread();
    for (int t = 0; t < 3; ++t) {
      adam.step_part(part.view(), weights, rate);
      adam.step(update.view(), weights, rate);
    }
    REQUIRE(allocations_of_this_thread() == before);
  }
}

}  // namespace weir::test
