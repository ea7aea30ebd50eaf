// unit.hpp: what is sparsified as a whole: a tensor, or all tensors of a buffer if sparsification comes after fusion.
#pragma once

#include <optional>
#include <vector>

#include "contribution/contribution.hpp"
#include "contribution/host_arrays.hpp"

namespace weir::fusion {

/// A tensor of a unit. It begins at element `begin` of the unit.
struct Part {
  int tensor = 0;
  std::int64_t begin = 0, count = 0;
};

template <class T>
class Unit {
  HostArrays<T> arrays_;  // used by the contribution

 public:
  /// If there are several parts, their gradients are copied next to each other. `any_optional`: a part may be left out of an
  /// iteration.
  Unit(std::vector<Part> of, const ContributionRules& rules, const Threads& threads, bool any_optional)
      : arrays_(std::nullopt, nullptr, rules.selection.count, rules.selection.values_on_host(), threads),
        parts(std::move(of)),
        count(rules.selection.count),
        k(rules.selection.largest_k),
        most_selected(rules.most_selected),
        contribution(rules, arrays_),
        gradient_(parts.size() > 1 ? count : 0),
        set_aside_(rules.keeps_residual && parts.size() > 1 && any_optional ? count : 0) {
    if (gradient_.size() > 0) arrays_.fill_zero(gradient_.data(), count);  // first touched by the threads that select from it
    left_out_.reserve(parts.size());
  }

  /// Copies the gradient of a part into a unit of several parts.
  void copy_in(const Part& part, const T* gradient) { arrays_.narrow(gradient, gradient_.data() + part.begin, part.count); }
  /// Leaves out a part. Its residual is set aside, and settled() brings it back.
  void leave_out(const Part& part) {
    arrays_.fill_zero(gradient_.data() + part.begin, part.count);
    if (set_aside_.size() == 0) return;
    T* const residual = contribution.residual().data() + part.begin;
    arrays_.narrow(residual, set_aside_.data() + part.begin, part.count);
    arrays_.fill_zero(residual, part.count);
    left_out_.push_back(part);
  }
  /// Compensates and selects. `gradient` is that of the only part; null: what was copied in. It must stay valid until the unit has
  /// settled. Returns false, with nothing selected, if the sum is not finite and must be.
  task<bool> select(const T* gradient) {
    source_ = gradient != nullptr ? gradient : gradient_.data();
    return contribution.select(source_, k);
  }
  /// Returns a tensor whose gradient is not finite after select() has returned false. Returns the first tensor if only the residual
  /// is not finite.
  [[nodiscard]] int non_finite_tensor() const {
    for (const Part& part : parts) {
      if (kernels::host::count_non_finite(source_ + part.begin, part.count) > 0) return part.tensor;
    }
    return parts.front().tensor;
  }
  /// Brings back the residuals that were set aside, after the contribution has settled or was rolled back.
  void settled() {
    T* const residual = contribution.residual().data();
    for (const Part& part : left_out_) arrays_.add(set_aside_.data() + part.begin, residual + part.begin, part.count);
    left_out_.clear();
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return arrays_.memory_bytes() + contribution.memory_bytes() + gradient_.bytes() + set_aside_.bytes();
  }

  const std::vector<Part> parts;
  const std::int64_t count, k, most_selected;
  Contribution<HostArrays<T>> contribution;
  int awaited = 0;  ///< parts still missing in this iteration

 private:
  Buffer<T> gradient_, set_aside_;
  std::vector<Part> left_out_;
  const T* source_ = nullptr;
};

}  // namespace weir::fusion
