// estimate.hpp: the state of EF21 (Richtarik, Sokolov, Fatkhullin, NeurIPS 2021): the sum of all updates, the same on every rank.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"

namespace weir::detail {

template <class Arrays>
class Estimate {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// Makes an estimate of `count` elements, or an empty object if `count` is 0. Updates are divided by `divisor`. `arrays` must
  /// outlive it.
  Estimate(std::int64_t count, double divisor, Arrays& arrays) : arrays_(arrays), divisor_(divisor), sum_(count) {
    state_.divisor = divisor;
    reset();
  }
  [[nodiscard]] explicit operator bool() const { return sum_.size() > 0; }

  /// Adds the update, and writes the sum to `result` unless that is nullptr. A sum restored from a job with another number of ranks
  /// was divided by that number, so it is divided anew.
  void deliver(G* result, SparseVector<T> update) {
    if (const double last = std::exchange(state_.divisor, divisor_); last != divisor_)
      arrays_.waxpby(static_cast<T>(last / divisor_), sum_.data(), T{0}, nullptr, sum_.data(), sum_.size());
    if (update.indices == nullptr)
      arrays_.add(update.values, sum_.data(), update.count);
    else
      arrays_.scatter_add(sum_.data(), update, {});
    if (result != nullptr) arrays_.narrow(sum_.data(), result, sum_.size());
  }

  void reset() {
    if (sum_.size() == 0) return;
    arrays_.fill_zero(sum_.data(), sum_.size());
    arrays_.finish();
  }
  void scale(double factor) {
    if (sum_.size() > 0) arrays_.rescale(sum_.data(), sum_.size(), static_cast<T>(factor));
  }
  void take(Estimate& other) {
    std::swap(sum_, other.sum_);
    std::swap(state_, other.state_);
  }
  void visit_state(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    if (sum_.size() == 0) return;
    const StateVisitor::Placed placed(visitor, {Share::agreed, range_of(sum_.size(), 0, sum_.size())});
    visitor.array("estimate", sum_.data(), sum_.size(), copy);
    visitor.state(state_);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return sum_.bytes(); }

 private:
  /// Holds what is kept between runs besides the sum.
  struct State {
    double divisor = 1;  ///< divisor of the updates in the sum

    void visit(StateVisitor& visitor) {
      visitor.value("estimate_divisor", divisor);
      visitor.check(std::isfinite(divisor) && divisor >= 1, "estimate_divisor", "finite, and at least 1");
    }
  };

  Arrays& arrays_;
  double divisor_;
  typename Arrays::template Array<T> sum_;
  State state_;
};

}  // namespace weir::detail
