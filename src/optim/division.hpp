// division.hpp: which rank works on which parts, and what that costs. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>
#include <weir/optim.hpp>

#include "model/cost.hpp"

namespace weir::optim {

/// Where the parts of each owner begin: owner i works on parts [begins[i], begins[i + 1]).
using Begins = std::vector<std::size_t>;

/// The parts in a row, cut so that the owner with the most work has the least. Owners may have none.
[[nodiscard]] Begins balanced(std::span<const OperatorPart> parts, int owners);
/// Seconds of the owner with the most work.
[[nodiscard]] double longest(std::span<const OperatorPart> parts, const Begins& begins);

/// What one run takes, by a division.
struct OperatorCost {
  double work = 0, gather = 0;  ///< s

  [[nodiscard]] double seconds() const { return work + gather; }
};

/// `division` is not automatic. `variable`: sizes of results are gathered first.
[[nodiscard]] OperatorCost cost_of(const Machine& machine, const Problem& ranks, std::span<const OperatorPart> parts, bool variable,
                                   OperatorDivision division);

}  // namespace weir::optim
