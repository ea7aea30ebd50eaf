// sparse_adam.hpp: moments that are updated only when they are needed: the implementation of SparseAdam.
#pragma once

#include <array>
#include <span>
#include <weir/sparse_adam.hpp>

#include "base/buffer.hpp"
#include "base/state.hpp"
#include "kernels/kernels.hpp"

namespace weir::optim {

/// Computes powers of a number from 0 to 1, with any exponent, from tables by the exponent's digits to base 256.
class Powers {
 public:
  explicit Powers(double base);
  [[nodiscard]] double of(std::uint32_t exponent) const {
    double power = of_digit_[0][exponent % digits];
    for (std::size_t place = 1; (exponent /= digits) != 0; ++place) power *= of_digit_[place][exponent % digits];
    return power;
  }

 private:
  static constexpr std::uint32_t digits = 256;
  std::array<std::array<double, digits>, 4> of_digit_;
};

}  // namespace weir::optim

namespace weir::detail {

/// The implementation of SparseAdam.
class SparseAdamState {
 public:
  explicit SparseAdamState(const SparseAdamConfig& configuration);

  /// Steps a part of the weights. If `last`, ends the step.
  void step(const SparseView<float>& part, std::span<float> weights, double learning_rate, bool last);
  void visit_state(StateVisitor& visitor) { visit_state(visitor, 0, config.count); }
  /// Visits, of the moments, only those of weights [begin, end).
  void visit_state(StateVisitor& visitor, std::int64_t begin, std::int64_t end);
  void reset();
  [[nodiscard]] std::int64_t steps() const { return state_.steps; }
  [[nodiscard]] std::int64_t memory_bytes() const;

  const SparseAdamConfig config;

 private:
  /// The state that is kept between steps, besides moments.
  struct State {
    std::int64_t steps = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("steps", steps);
      visitor.check(steps >= 0 && steps <= most_steps, "steps", "from 0 to 4294967295");
    }
  };
  static constexpr std::int64_t most_steps = 4294967295;  // steps are kept in 32 bits for each weight
  static constexpr std::int64_t chunk = 1024;             // entries that fit into the innermost cache, with weights and moments

  [[nodiscard]] std::uint32_t this_step() const { return static_cast<std::uint32_t>(state_.steps + 1); }
  void check(const SparseView<float>& part, std::span<const float> weights, double learning_rate) const;
  void step_entries(const SparseView<float>& part, float* weights, float rate);
  void collect(const SparseView<float>& part);
  void step_all(float* weights, float rate);

  Buffer<float> first_, second_;   // moments, as of the step in which their entry was last touched; with `exact`, of the last step
  Buffer<std::uint32_t> touched_;  // by entry: that step, counted from 1; 0: never
  Buffer<float> gradient_;         // exact: the sum of this step's gradients so far, zero between steps
  Buffer<float> chunk_;            // weights and moments of a chunk of entries
  optim::Powers powers1_, powers2_;
  AdamFactors<float> factors_{};  // of this step
  bool begun_ = false;            // this step has had a part
  State state_;
};

}  // namespace weir::detail
