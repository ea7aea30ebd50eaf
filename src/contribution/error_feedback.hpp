// error_feedback.hpp: what is applied to a rank's gradient g before it is added to the residual r (GRACE section IV: phi = decay r
// + gain g is compressed, and r becomes the part of phi that is not delivered).
//
// Selection adds the gradient to the residual in the same pass. Every other rule is reduced to that form here: another vector x
// replaces the gradient, so that r + x is what is compressed:
//
//   x = gain g
//   momentum (SIGNUM, DGC):  x = gain v, with v = momentum v + its gain g
//   decay of the residual:   x = decay r + (x without decay), and r = 0 meanwhile, so that x is not rounded to the size of r
//   EF21:                    x = g - g_last; the residual is then g - h, with the paper's state h, and the sum of all updates
//                            is the mean of h over all ranks
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "async/task.hpp"
#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"

namespace weir {

struct FeedbackRules {
  double decay = 1, gain = 1;
  compress::Momentum momentum;
  bool differences = false;  ///< for EF21
  int ranks = 1;

  [[nodiscard]] bool uses_velocity() const { return momentum.momentum != 0; }
  /// Returns true if the gradient is compressed as it is.
  [[nodiscard]] bool idle() const {
    return decay == 1 && gain == 1 && !uses_velocity() && momentum.gain == 1 && momentum.clip == 0 && !differences;
  }
};

/// A rank's residual, and what prepares gradients for it. Template over the memory of its arrays: HostArrays, or CudaArrays of
/// plans.
template <class Arrays>
class ErrorFeedback {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `keeps_residual`: what is not delivered stays in a residual. `arrays` must outlive the object.
  ErrorFeedback(const FeedbackRules& rules, std::int64_t count, bool keeps_residual, Arrays& arrays)
      : rules_(rules), count_(count), arrays_(arrays), residual_(keeps_residual ? count : 0) {
    if (!idle()) prepared_ = Array(count);
    if (decays()) before_ = Array(count);
    if (keeps()) {
      kept_ = Array(count);
      next_ = Array(count);
    }
    reset();
  }

  /// Returns true if there is nothing to prepare: the gradient is used as it is.
  [[nodiscard]] bool idle() const { return rules_.idle(); }
  /// Returns true if prepare() moves the residual into x and leaves it 0; see restore().
  [[nodiscard]] bool decays() const { return rules_.decay != 1; }
  /// Returns the residual, or an empty span if none is kept.
  [[nodiscard]] std::span<T> residual() { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }
  [[nodiscard]] std::span<const T> residual() const { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }

  /// Returns x as defined at the head of this file; valid until the next call. Must not be called if idle().
  task<const T*> prepare(const G* gradient) {
    const double clipped = co_await clip_factor(gradient);
    const T factor = static_cast<T>(clipped * rules_.momentum.gain);
    if (rules_.differences) {
      arrays_.waxpby(T{1}, gradient, T{0}, nullptr, next_.data(), count_);
      arrays_.waxpby(T{1}, gradient, T{-1}, kept_.data(), prepared_.data(), count_);
    } else if (rules_.uses_velocity()) {
      arrays_.waxpby(factor, gradient, static_cast<T>(rules_.momentum.momentum), kept_.data(), next_.data(), count_);
      combine(static_cast<T>(rules_.gain), static_cast<const T*>(next_.data()));
    } else {
      combine(static_cast<T>(factor * static_cast<T>(rules_.gain)), gradient);
    }
    co_return prepared_.data();
  }
  /// Restores the residual bit by bit to what it was before prepare(). Only if decays().
  void restore() { arrays_.waxpby(T{1}, before_.data(), T{0}, nullptr, residual_.data(), count_); }
  /// Records that the last prepared vector was delivered. Without this call the state stays as it was before prepare().
  void commit() {
    if (keeps()) std::swap(kept_, next_);
  }
  /// Applies DGC's momentum factor masking, after commit(): clears the velocity of the entries in both `selected` and `delivered`.
  void mask(SparseVector<T> selected, SparseVector<T> delivered) {
    if (rules_.momentum.masked && rules_.uses_velocity()) arrays_.clear_taken(kept_.data(), selected, delivered);
  }

  void reset() {
    for (Array* array : {&kept_, &residual_}) {
      if (array->size() == 0) continue;
      arrays_.fill_zero(array->data(), array->size());
      arrays_.finish();
    }
  }
  /// Multiplies what is kept by `factor`, as kernels::rescale does.
  void scale(double factor) {
    for (Array* array : {&residual_, &kept_})
      if (array->size() > 0) arrays_.rescale(array->data(), array->size(), static_cast<T>(factor));
  }
  void visit_state(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    visitor.array("residual", residual_.data(), residual_.size(), copy);
    if (keeps()) visitor.array(rules_.uses_velocity() ? "velocity" : "last_gradient", kept_.data(), kept_.size(), copy);
  }
  /// Takes over the state of `other`, which must have the same rules and elements.
  void take(ErrorFeedback& other) {
    std::swap(residual_, other.residual_);
    std::swap(kept_, other.kept_);
  }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return residual_.bytes() + prepared_.bytes() + before_.bytes() + kept_.bytes() + next_.bytes();
  }

 private:
  using Array = typename Arrays::template Array<T>;

  [[nodiscard]] bool keeps() const { return rules_.uses_velocity() || rules_.differences; }

  template <class X>
  void combine(T gain, const X* source) {
    T* const residual = decays() ? residual_.data() : nullptr;
    arrays_.waxpby(gain, source, static_cast<T>(rules_.decay), residual, prepared_.data(), count_);
    if (!decays()) return;
    arrays_.waxpby(T{1}, residual, T{0}, nullptr, before_.data(), count_);
    arrays_.fill_zero(residual, count_);
  }

  /// CUDA sums in another order than the host, so the factor may differ in its last bit.
  task<double> clip_factor(const G* gradient) {
    if (rules_.momentum.clip == 0) co_return 1;
    const double most = rules_.momentum.clip / std::sqrt(static_cast<double>(rules_.ranks));
    arrays_.moments(gradient, count_);
    co_await arrays_.report();
    const double norm = std::sqrt(arrays_.results().moments.sum_squares);
    co_return norm > most ? most / norm : 1;
  }

  FeedbackRules rules_;
  std::int64_t count_;
  Arrays& arrays_;
  Array residual_, prepared_;
  Array before_;       // the residual before the last prepare(), if it decays
  Array kept_, next_;  // velocity or last gradient; its next value
};

}  // namespace weir
