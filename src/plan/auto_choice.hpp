// auto_choice.hpp: which algorithm `auto` stands for.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "communicator/communicator.hpp"

namespace weir::detail {

struct Choice {
  std::vector<AllreduceConfig> candidates;  ///< the first is the prediction's choice; the others are worth a trial
  std::string explanation;                  ///< a table, as text
};

/// Collective. Rank 0's choice, on every rank: by the cost functions, among all algorithms that can run here, the wire formats and
/// the value types that `config` allows. More than one candidate only with config.trial_iterations: the cheapest of up to three
/// algorithms, those predicted to take at most half as long again as the first.
[[nodiscard]] Choice choose_algorithm(CommunicatorState& comm, const AllreduceConfig& config);

}  // namespace weir::detail
