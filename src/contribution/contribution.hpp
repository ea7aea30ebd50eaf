// contribution.hpp: what a rank contributes to an exchange of entries, and what it keeps of its gradients until they are delivered.
//
// It is the only owner of "nothing is lost" for entries. Let r be the residual before a run, r' the residual after it, and x the
// gradient, or the vector that error feedback puts in its place. Then, up to rounding at the size of the sums:
//
//   r + x = r' + the entries of this rank that the exchange has delivered
//
// If the exchange drops entries on the way, the rank that dropped them gets them back as undelivered. The law then holds for the
// sum over all ranks. If a run delivers nothing, r' = r.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "async/task.hpp"
#include "base/state.hpp"
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "contribution/error_feedback.hpp"
#include "contribution/selector.hpp"

namespace weir {

struct ContributionRules {
  SelectionSetup selection;
  std::int64_t most_selected = 0;  ///< most entries of one selection
  FeedbackRules feedback;
  bool keeps_residual = true;
  bool refuses_non_finite = true;
  wire::Wire wire;  ///< how the entries travel
};

/// Template over the memory of its arrays: HostArrays or CudaArrays. A run calls select(), travelling(), then settle() or
/// roll_back().
template <class Arrays>
class Contribution {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;
  using Array = typename Arrays::template Array<T>;

  /// `arrays` must outlive the object. Allocates all memory here.
  Contribution(const ContributionRules& rules, Arrays& arrays)
      : rules_(rules),
        arrays_(arrays),
        selector_(rules.selection, arrays),
        feedback_(rules.feedback, rules.selection.count, arrays),
        residual_(rules.keeps_residual ? rules.selection.count : 0),
        rounded_(rules.wire.values != WireValues::native ? rules.most_selected : 0) {
    forget_residual();
  }

  /// Adds the gradient to the residual, and selects k entries of the sum (Ok-Topk Algorithm 2). `gradient` must stay valid until
  /// settle(); roll_back() can do without it. Returns false, with nothing selected, if an element is not finite and must be. `draw`
  /// is for random selections.
  task<bool> select(const G* gradient, std::int64_t k, Draw draw = {}) {
    gradient_ = gradient;
    prepared_ = feedback_.idle() ? nullptr : co_await feedback_.prepare(gradient, residual_.data());
    bool finite = true;
    if (prepared_ != nullptr)
      finite = co_await selector_.select(prepared_, residual_.data(), k, rules_.refuses_non_finite, draw);
    else
      finite = co_await selector_.select(gradient, residual_.data(), k, rules_.refuses_non_finite, draw);
    selection_ = finite ? selector_.selection() : SparseVector<T>{};
    co_return finite;
  }
  [[nodiscard]] SparseVector<T> selection() const { return selection_; }
  /// Returns the selection as it travels, rounded if the wire format rounds.
  [[nodiscard]] SparseVector<T> travelling() {
    if (rounded_.size() == 0) return selection_;
    arrays_.round(rules_.wire, selection_, rounded_.data());
    return {selection_.indices, rounded_.data(), selection_.count};
  }

  /// Removes what was delivered from the residual. Adds what the exchange hands back, and what rounding took away. The indices of
  /// `delivered` ascend. Those of `undelivered` ascend in runs that end at `runs`, or in one run if `runs` is empty.
  void settle(SparseVector<T> delivered, SparseVector<T> undelivered = {}, std::span<const std::int64_t> runs = {}) {
    if (residual_.size() > 0) {
      selector_.settle(residual_.data(), delivered);
      arrays_.scatter_add(residual_.data(), undelivered, runs);
      if (rounded_.size() > 0) arrays_.return_rounded(rules_.wire, residual_.data(), selection_, rounded_.data(), delivered);
    }
    feedback_.commit();
    feedback_.mask(selection_, delivered);
  }
  /// Adds back one entry that an exchange has returned, after settle(). In host memory only.
  void give_back(std::int64_t index, T value) {
    if (residual_.size() > 0) residual_[index] += value;
  }
  /// Restores the residual that was there before select(), up to rounding at the size of the threshold. `gradient_is_there`: the
  /// caller's gradient may be read. Without it the residual keeps the sum, unless error feedback has replaced the gradient.
  void roll_back(bool gradient_is_there) {
    if (residual_.size() == 0) return;
    if (prepared_ != nullptr && feedback_.decays())
      feedback_.restore(residual_.data());
    else if (prepared_ != nullptr)
      selector_.roll_back(prepared_, residual_.data());
    else if (gradient_is_there)
      selector_.roll_back(gradient_, residual_.data());
  }

  void reset() {
    selector_.reset();
    feedback_.reset();
    forget_residual();
  }
  /// Multiplies by `factor` what is kept of gradients.
  void scale(double factor) {
    if (residual_.size() > 0) arrays_.rescale(residual_.data(), residual_.size(), static_cast<T>(factor));
    selector_.scale(factor);
    feedback_.scale(factor);
  }
  /// Takes over the residual and the other state of `other`, which must have the same rules and elements.
  void take(Contribution& other) {
    std::swap(residual_, other.residual_);
    feedback_.take(other.feedback_);
  }
  void visit_selector(StateVisitor& visitor) { selector_.visit_state(visitor); }
  void visit_residual(StateVisitor& visitor, const StateVisitor::Copy& copy) {
    visitor.array("residual", residual_.data(), residual_.size(), copy);
    feedback_.visit_state(visitor, copy);
  }

  /// Returns the residual, or an empty span if none is kept.
  [[nodiscard]] std::span<T> residual() { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }
  [[nodiscard]] std::span<const T> residual() const { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }
  /// Returns true if the last selection found a new threshold that may be used again.
  [[nodiscard]] bool rethresholded() const { return selector_.rethresholded(); }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return selector_.memory_bytes() + feedback_.memory_bytes() + residual_.bytes() + rounded_.bytes();
  }

 private:
  void forget_residual() {
    if (residual_.size() == 0) return;
    arrays_.fill_zero(residual_.data(), residual_.size());
    arrays_.finish();
  }

  ContributionRules rules_;
  Arrays& arrays_;
  Selector<Arrays> selector_;
  ErrorFeedback<Arrays> feedback_;
  Array residual_, rounded_;
  // State of the last run:
  const G* gradient_ = nullptr;
  const T* prepared_ = nullptr;  // what error feedback put in the gradient's place, or nullptr
  SparseVector<T> selection_;
};

}  // namespace weir
