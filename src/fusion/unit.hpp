// unit.hpp: what is sparsified as one: a tensor, or, where sparsification comes behind fusion, all tensors of a buffer.
#pragma once

#include <optional>
#include <vector>

#include "contribution/contribution.hpp"
#include "contribution/host_arrays.hpp"

namespace weir::fusion {

/// A tensor of a unit, from element `begin` of it on.
struct Part {
  int tensor = 0;
  std::int64_t begin = 0, count = 0;
};

template <class T>
class Unit {
  HostArrays<T> arrays_;  // the contribution's

 public:
  /// Where parts are several, gradients are copied next to each other. `any_optional`: a part may be left out of an iteration.
  Unit(std::vector<Part> of, const ContributionRules& rules, const Threads& threads, bool any_optional)
      : arrays_(std::nullopt, nullptr, rules.selection.count, rules.selection.estimates() ? rules.selection.capacity() : 0,
                threads),
        parts(std::move(of)),
        count(rules.selection.count),
        k(rules.selection.largest_k),
        most_selected(rules.most_selected),
        contribution(rules, arrays_),
        gradient_(parts.size() > 1 ? count : 0),
        set_aside_(rules.keeps_residual && parts.size() > 1 && any_optional ? count : 0) {
    if (gradient_.size() > 0) arrays_.fill_zero(gradient_.data(), count);  // touched first by the threads that select from it
    left_out_.reserve(parts.size());
  }

  /// The gradient of a part, on the way into a unit of several.
  void copy_in(const Part& part, const T* gradient) { arrays_.narrow(gradient, gradient_.data() + part.begin, part.count); }
  /// The part contributes nothing: neither does its residual, which settled() brings back.
  void leave_out(const Part& part) {
    arrays_.fill_zero(gradient_.data() + part.begin, part.count);
    if (set_aside_.size() == 0) return;
    T* const residual = contribution.residual().data() + part.begin;
    arrays_.narrow(residual, set_aside_.data() + part.begin, part.count);
    arrays_.fill_zero(residual, part.count);
    left_out_.push_back(part);
  }
  /// Compensates and selects. `gradient` is that of the only part; null: what was copied in. It stays until the unit has settled.
  /// False where it is not finite, and may not be; nothing is selected then.
  task<bool> select(const T* gradient) {
    source_ = gradient != nullptr ? gradient : gradient_.data();
    return contribution.select(source_, k);
  }
  /// After that: one that holds what is not finite, or the first, whose residual does.
  [[nodiscard]] int non_finite_tensor() const {
    for (const Part& part : parts) {
      if (kernels::host::count_non_finite(source_ + part.begin, part.count) > 0) return part.tensor;
    }
    return parts.front().tensor;
  }
  /// After the contribution has settled, or was rolled back.
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
  int awaited = 0;  ///< parts that have not come in this iteration

 private:
  Buffer<T> gradient_, set_aside_;
  std::vector<Part> left_out_;
  const T* source_ = nullptr;
};

}  // namespace weir::fusion
