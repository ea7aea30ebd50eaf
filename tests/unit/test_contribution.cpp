// test_contribution.cpp: tests the law of contributions without ranks: old residual and gradient = new residual + delivered
// entries.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/config_check.hpp"
#include "contribution/contribution.hpp"
#include "contribution/host_arrays.hpp"
#include "support/catch.hpp"
#include "support/inputs.hpp"

namespace weir::test {
namespace {

/// A contribution in host memory beside a model of it in double precision.
class Modelled {
 public:
  explicit Modelled(const ContributionRules& rules)
      : rules_(rules),
        memory_({}, nullptr, rules.selection.count, 0),
        contribution_(rules, memory_),
        residual_(size()),
        velocity_(size()),
        last_(size()),
        largest_(size(), 0x1p-126) {}

  bool select(const std::vector<float>& gradient, std::int64_t k) {
    const FramePool::Scope scope(frames_);
    before_.assign(contribution_.residual().begin(), contribution_.residual().end());
    sums_ = residual_;
    next_velocity_ = velocity_;
    const FeedbackRules& f = rules_.feedback;
    for (std::size_t i = 0; i < size(); ++i) {
      next_velocity_[i] = f.momentum.momentum * velocity_[i] + f.momentum.gain * gradient[i];
      const double x = f.differences ? gradient[i] - last_[i] : f.gain * next_velocity_[i];
      sums_[i] = f.decay * residual_[i] + x;
      largest_[i] = std::max({largest_[i], std::abs(sums_[i]), std::abs(x), std::abs(next_velocity_[i])});
    }
    gradient_ = &gradient;
    return run_here(contribution_.select(gradient.data(), k));
  }

  /// Delivers some of the entries, gives back a part of some, and returns the largest loss, in roundings.
  double settle(std::mt19937_64& random) {
    const SparseVector<float> sent = contribution_.travelling();
    std::vector<std::uint32_t> taken, back;
    std::vector<float> taken_values, back_values;
    std::vector<double> expected = sums_;
    for (std::uint32_t i = 0, e = 0; i < size(); ++i) {
      const bool selected = e < sent.count && sent.indices[e] == i;
      const bool delivered = random() % 2 == 0;  // others may deliver what this rank has not selected
      if (delivered) {
        taken.push_back(i);
        taken_values.push_back(0);  // a contribution reads only the indices of other ranks' entries
      }
      if (selected && delivered) {
        const float undelivered = random() % 4 == 0 ? sent.values[e] / 2 : 0;
        if (undelivered != 0) {
          back.push_back(i);
          back_values.push_back(undelivered);
        }
        expected[i] -= static_cast<double>(sent.values[e]) - undelivered;
      }
      if (rules_.feedback.momentum.masked && selected && delivered) next_velocity_[i] = 0;
      e += selected;
    }
    contribution_.settle({taken.data(), taken_values.data(), static_cast<std::int64_t>(taken.size())},
                         {back.data(), back_values.data(), static_cast<std::int64_t>(back.size())});
    velocity_ = next_velocity_;
    last_.assign(gradient_->begin(), gradient_->end());
    double lost = 0;
    const std::span<const float> residual = contribution_.residual();
    for (std::size_t i = 0; i < residual.size(); ++i) {
      lost = std::max(lost, std::abs(residual[i] - expected[i]) / (largest_[i] * 0x1p-23));
    }
    std::copy(residual.begin(), residual.end(), residual_.begin());
    return lost;
  }

  /// Returns the largest difference of the residual from its value before select(), in roundings.
  double roll_back(bool gradient_is_there) {
    contribution_.roll_back(gradient_is_there);
    double off = 0;
    const std::span<const float> residual = contribution_.residual();
    for (std::size_t i = 0; i < residual.size(); ++i) {
      off = std::max(off, std::abs(static_cast<double>(residual[i]) - before_[i]) / (largest_[i] * 0x1p-23));
    }
    std::copy(residual.begin(), residual.end(), residual_.begin());
    return off;
  }

  [[nodiscard]] Contribution<HostArrays<float>>& contribution() { return contribution_; }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(rules_.selection.count); }

  ContributionRules rules_;
  FramePool frames_;
  HostArrays<float> memory_;
  Contribution<HostArrays<float>> contribution_;
  std::vector<double> residual_, velocity_, last_, sums_, next_velocity_;
  std::vector<double> largest_;  // largest magnitude so far, the unit of roundings
  std::vector<float> before_;
  const std::vector<float>* gradient_ = nullptr;
};

struct Feedbacks {
  const char* name;
  FeedbackRules rules;
};
const Feedbacks feedbacks[] = {{"plain", {}},
                               {"decay and gain", {.decay = 0.75, .gain = 1.5, .momentum = {}}},
                               {"velocity", {.momentum = {.momentum = 0.9, .gain = 0.1}}},
                               {"masked velocity", {.momentum = {.momentum = 0.9, .masked = true}}},
                               {"differences", {.momentum = {}, .differences = true}}};

ContributionRules rules_of(std::int64_t n, std::int64_t k, const FeedbackRules& feedback, WireValues values) {
  return {
      .selection = {.count = n, .largest_k = k}, .most_selected = k, .feedback = feedback, .wire = {WireFormat::compact, values}};
}

}  // namespace

TEST_CASE("what was there goes to what stays and what is delivered") {
  for (const Feedbacks& feedback : feedbacks) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 0}, {1, 1}, {7, 7}, {1000, 30}, {1000, 1000}}) {
        for (const Input input : {Input::heavy_tailed, Input::integers, Input::zeros, Input::constant}) {
          CAPTURE(feedback.name, name_of(values), n, k, input_name(input));
          std::mt19937_64 random(static_cast<std::uint64_t>(n + k));
          Modelled modelled(rules_of(n, k, feedback.rules, values));
          for (int t = 0; t < 5; ++t) {
            const auto gradient = make_input<float>(input, n, 0, 1, t);
            REQUIRE(modelled.select(gradient, k));
            REQUIRE(modelled.contribution().selection().count <= k);
            REQUIRE(modelled.settle(random) <= 8);
          }
        }
      }
    }
  }
}

TEST_CASE("a run that delivers nothing leaves the residual, and the next run loses nothing") {
  for (const Feedbacks& feedback : feedbacks) {
    CAPTURE(feedback.name);
    std::mt19937_64 random(1);
    Modelled modelled(rules_of(1000, 30, feedback.rules, WireValues::native));
    for (int t = 0; t < 6; ++t) {
      const auto gradient = make_input<float>(Input::heavy_tailed, 1000, 0, 1, t);
      REQUIRE(modelled.select(gradient, 30));
      if (t % 2 == 1)
        REQUIRE(modelled.roll_back(true) <= 2);
      else
        REQUIRE(modelled.settle(random) <= 8);
    }
  }
}

TEST_CASE("what is not finite is refused, and the residual is as before") {
  for (const Feedbacks& feedback : feedbacks) {
    CAPTURE(feedback.name);
    std::mt19937_64 random(1);
    Modelled modelled(rules_of(100, 10, feedback.rules, WireValues::native));
    auto gradient = make_input<float>(Input::integers, 100, 0, 1, 0);
    REQUIRE(modelled.select(gradient, 10));
    REQUIRE(modelled.settle(random) <= 8);
    std::vector<float> wild = make_input<float>(Input::integers, 100, 0, 1, 1);
    wild[17] = std::numeric_limits<float>::quiet_NaN();
    wild[63] = std::numeric_limits<float>::infinity();
    const std::vector<float> before(modelled.contribution().residual().begin(), modelled.contribution().residual().end());
    REQUIRE_FALSE(modelled.select(wild, 10));
    REQUIRE(modelled.contribution().selection().count == 0);
    modelled.contribution().roll_back(true);
    const std::span<const float> residual = modelled.contribution().residual();
    for (std::size_t i = 0; i < before.size(); ++i) {
      CAPTURE(i);
      REQUIRE(std::abs(residual[i] - before[i]) <= 16 * 0x1p-23);  // integers up to 3, a few times
    }
  }
}

TEST_CASE("a contribution without a residual keeps nothing") {
  ContributionRules rules = rules_of(100, 10, {}, WireValues::bfloat16);
  rules.keeps_residual = false;
  std::mt19937_64 random(1);
  Modelled modelled(rules);
  for (int t = 0; t < 3; ++t) {
    const auto gradient = make_input<float>(Input::heavy_tailed, 100, 0, 1, t);
    REQUIRE(modelled.select(gradient, 10));
    REQUIRE(modelled.contribution().selection().count == 10);
    modelled.settle(random);
    REQUIRE(modelled.contribution().residual().empty());
    modelled.contribution().roll_back(true);
  }
}

}  // namespace weir::test
