// unit.hpp: what is sparsified as one: a tensor, or, where sparsification comes behind fusion, all tensors of a buffer. Its
// residual and its selector.
#pragma once

#include <optional>
#include <vector>

#include "plan/host_memory.hpp"
#include "plan/selector.hpp"

namespace weir::fusion {

/// A tensor of a unit, from element `begin` of it on.
struct Part {
  int tensor = 0;
  std::int64_t begin = 0, count = 0;
};

template <class T>
class Unit {
 public:
  using Memory = HostMemory<T>;

  /// Where parts are several, gradients are copied next to each other.
  Unit(std::vector<Part> of, const SelectionSetup& setup, const Threads& threads, bool feedback, bool refuses_non_finite,
       bool any_optional)
      : parts(std::move(of)),
        count(setup.count),
        k(setup.largest_k),
        most_selected(weir::most_selected(setup.threshold, setup.count, setup.largest_k)),
        memory_(std::nullopt, nullptr, setup.count, setup.uses_moments() ? setup.capacity() : 0, threads),
        selector_(setup, memory_),
        residual_(feedback ? setup.count : 0),
        gradient_(parts.size() > 1 ? setup.count : 0),
        set_aside_(feedback && parts.size() > 1 && any_optional ? setup.count : 0),
        refuses_non_finite_(refuses_non_finite) {
    if (gradient_.size() > 0) memory_.fill_zero(gradient_.data(), count);  // touched first by the threads that select from it
    reset();
  }

  /// The gradient of a part, on the way into a unit of several.
  void copy_in(const Part& part, const T* gradient) { memory_.narrow(gradient, gradient_.data() + part.begin, part.count); }
  /// The part contributes nothing: neither does its residual, which settled() brings back.
  void leave_out(const Part& part) {
    memory_.fill_zero(gradient_.data() + part.begin, part.count);
    if (set_aside_.size() == 0) return;
    memory_.narrow(residual_.data() + part.begin, set_aside_.data() + part.begin, part.count);
    memory_.fill_zero(residual_.data() + part.begin, part.count);
    left_out_.push_back(part);
  }
  /// Compensates and selects. `gradient` is that of the only part; null: what was copied in. It stays until the unit has settled.
  /// False where it is not finite, and may not be; nothing is selected then.
  task<bool> select(const T* gradient) {
    source_ = gradient != nullptr ? gradient : gradient_.data();
    const bool finite = co_await selector_.select(source_, residual(), k, refuses_non_finite_);
    selection_ = finite ? selector_.selection() : SparseVector<T>{};
    co_return finite;
  }
  /// After that: one that holds what is not finite, or the first, whose residual does.
  [[nodiscard]] int non_finite_tensor() const {
    for (const Part& part : parts) {
      if (kernels::host::count_non_finite(source_ + part.begin, part.count) > 0) return part.tensor;
    }
    return parts.front().tensor;
  }
  [[nodiscard]] SparseVector<T> selection() const { return selection_; }

  /// What was delivered leaves the residual. Indices count from the unit's first element on.
  void settle(SparseVector<T> taken) {
    if (residual() != nullptr) selector_.settle(residual(), taken);
  }
  void give_back(std::int64_t index, T value) {
    if (residual() != nullptr) residual_[index] += value;
  }
  void return_rounded(WireValues wire_values, const T* rounded, SparseVector<T> taken) {
    if (residual() != nullptr) memory_.return_rounded({.values = wire_values}, residual(), selection_, rounded, taken);
  }
  /// The residual becomes what it was before select(), up to rounding.
  void roll_back() {
    if (residual() != nullptr) selector_.roll_back(source_, residual());
  }
  /// After all that.
  void settled() {
    for (const Part& part : left_out_) memory_.add(set_aside_.data() + part.begin, residual_.data() + part.begin, part.count);
    left_out_.clear();
  }

  void reset() {
    selector_.reset();
    if (residual_.size() > 0) memory_.fill_zero(residual_.data(), residual_.size());
    left_out_.reserve(parts.size());
  }
  void scale(double factor) {
    selector_.scale(factor);
    if (residual_.size() > 0) memory_.rescale(residual_.data(), count, static_cast<T>(factor));
  }
  void visit_selector(StateVisitor& visitor) { selector_.visit_state(visitor); }
  [[nodiscard]] T* residual() { return residual_.data(); }
  [[nodiscard]] const T* residual() const { return residual_.data(); }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return memory_.memory_bytes() + selector_.memory_bytes() + residual_.bytes() + gradient_.bytes() + set_aside_.bytes();
  }

  const std::vector<Part> parts;
  const std::int64_t count, k, most_selected;
  int awaited = 0;  ///< parts that have not come in this iteration

 private:
  Memory memory_;
  Selector<Memory> selector_;
  Buffer<T> residual_, gradient_, set_aside_;
  std::vector<Part> left_out_;
  bool refuses_non_finite_;
  const T* source_ = nullptr;
  SparseVector<T> selection_;
};

}  // namespace weir::fusion
