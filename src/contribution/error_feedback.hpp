// error_feedback.hpp: what comes between a rank's gradient g and its residual r (GRACE section IV: phi = decay r + gain g is
// compressed, and r becomes what of phi is not delivered).
//
// Residuals are kept by adding the gradient to them, which selection does on its way. All that is not that plain is brought to this
// form here: some other vector x takes the gradient's place, so that r + x is what is to be compressed:
//
//   x = gain g
//   momentum (SIGNUM, DGC):  x = gain v, where v = momentum v + its gain g
//   decay of the residual:   x = decay r + what it is without, and r = 0 meanwhile: nothing of x is rounded to the size of r
//   EF21:                    x = g - g_last; the residual then is g - h of the paper's state h, and the sum of all that was
//   delivered
//                            is the mean of all ranks' h
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "async/task.hpp"
#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"

namespace weir {

struct FeedbackRules {
  double decay = 1, gain = 1;
  compress::Momentum momentum;
  bool differences = false;  ///< EF21
  int ranks = 1;

  [[nodiscard]] bool uses_velocity() const { return momentum.momentum != 0; }
  /// The gradient is compressed as it is.
  [[nodiscard]] bool idle() const {
    return decay == 1 && gain == 1 && !uses_velocity() && momentum.gain == 1 && momentum.clip == 0 && !differences;
  }
};

/// A template over what arrays are in: HostArrays or CudaArrays of plans.
template <class Arrays>
class ErrorFeedback {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `arrays` outlives it.
  ErrorFeedback(const FeedbackRules& rules, std::int64_t count, Arrays& arrays) : rules_(rules), count_(count), arrays_(arrays) {
    if (rules.idle()) return;
    prepared_ = Array(count);
    if (decays()) residual_ = Array(count);
    if (!keeps()) return;
    kept_ = Array(count);
    next_ = Array(count);
    reset();
  }

  /// Nothing to prepare or to keep: the gradient is taken as it is.
  [[nodiscard]] bool idle() const { return rules_.idle(); }

  /// The residual goes into what is prepared, and is 0 until something is added: see restore().
  [[nodiscard]] bool decays() const { return rules_.decay != 1; }

  /// x of the head of this file; valid until the next call. Not if idle(). `residual` may be nullptr.
  task<const T*> prepare(const G* gradient, T* residual) {
    const double clipped = co_await clip_factor(gradient);
    const T factor = static_cast<T>(clipped * rules_.momentum.gain);
    if (rules_.differences) {
      arrays_.waxpby(T{1}, gradient, T{0}, nullptr, next_.data(), count_);
      arrays_.waxpby(T{1}, gradient, T{-1}, kept_.data(), prepared_.data(), count_);
    } else if (rules_.uses_velocity()) {
      arrays_.waxpby(factor, gradient, static_cast<T>(rules_.momentum.momentum), kept_.data(), next_.data(), count_);
      combine(static_cast<T>(rules_.gain), static_cast<const T*>(next_.data()), residual);
    } else {
      combine(static_cast<T>(factor * static_cast<T>(rules_.gain)), gradient, residual);
    }
    co_return prepared_.data();
  }

  /// Gives the residual the bits that it had before prepare(). Only where decays().
  void restore(T* residual) { arrays_.waxpby(T{1}, residual_.data(), T{0}, nullptr, residual, count_); }

  /// What was prepared last has been delivered. Until then all is as it was.
  void commit() {
    if (keeps()) std::swap(kept_, next_);
  }

  /// DGC's momentum factor masking: of what `selected` and has been `delivered` the velocity ends. After commit().
  void mask(SparseVector<T> selected, SparseVector<T> delivered) {
    if (rules_.momentum.masked && uses_velocity()) arrays_.clear_taken(kept_.data(), selected, delivered);
  }

  void reset() {
    if (kept_.size() == 0) return;
    arrays_.fill_zero(kept_.data(), kept_.size());
    arrays_.finish();
  }
  /// What is kept becomes `factor` times what it was, as kernels::rescale has it.
  void scale(double factor) {
    if (kept_.size() > 0) arrays_.rescale(kept_.data(), kept_.size(), static_cast<T>(factor));
  }
  void visit_state(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    if (keeps()) visitor.array(uses_velocity() ? "velocity" : "last_gradient", kept_.data(), kept_.size(), copy);
  }
  /// Takes over what `other` keeps, which has the same rules and elements.
  void take(ErrorFeedback& other) { std::swap(kept_, other.kept_); }
  [[nodiscard]] std::int64_t memory_bytes() const { return prepared_.bytes() + residual_.bytes() + kept_.bytes() + next_.bytes(); }

 private:
  using Array = typename Arrays::template Array<T>;

  [[nodiscard]] bool uses_velocity() const { return rules_.uses_velocity(); }
  [[nodiscard]] bool keeps() const { return uses_velocity() || rules_.differences; }

  template <class X>
  void combine(T gain, const X* source, T* residual) {
    arrays_.waxpby(gain, source, static_cast<T>(rules_.decay), decays() ? residual : nullptr, prepared_.data(), count_);
    if (!decays()) return;
    arrays_.waxpby(T{1}, residual, T{0}, nullptr, residual_.data(), count_);
    arrays_.fill_zero(residual, count_);
  }

  /// In CUDA memory the sum has another order than on the host: the factor may differ in its last bit.
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
  Array prepared_;
  Array residual_;     // as it was, where it decays
  Array kept_, next_;  // velocity or last gradient; what it will be
};

}  // namespace weir
