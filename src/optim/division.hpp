// division.hpp: which rank works on which parts, and what that costs. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>
#include <weir/optim.hpp>

#include "model/cost.hpp"

namespace weir::optim {

/// The first part of each owner: owner i works on parts [begins[i], begins[i + 1]).
using Begins = std::vector<std::size_t>;

/// Divides consecutive parts among owners so that the most work of any owner is as small as possible. Owners may have no parts.
[[nodiscard]] Begins balanced(std::span<const OperatorPart> parts, int owners);
/// Returns the seconds of the owner with the most work.
[[nodiscard]] double longest(std::span<const OperatorPart> parts, const Begins& begins);

/// The time of one run with a division.
struct OperatorCost {
  double work = 0, gather = 0;  ///< s

  [[nodiscard]] double seconds() const { return work + gather; }
};

/// Returns the cost of a division, which must not be automatic. `variable`: sizes of results are gathered first.
[[nodiscard]] OperatorCost cost_of(const Machine& machine, const Problem& ranks, std::span<const OperatorPart> parts, bool variable,
                                   OperatorDivision division);

}  // namespace weir::optim
