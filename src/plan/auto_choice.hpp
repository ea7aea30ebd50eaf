// auto_choice.hpp: chooses the algorithm that `auto` stands for.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "communicator/communicator.hpp"

namespace weir::detail {

struct Choice {
  std::vector<AllreduceConfig> candidates;  ///< the first is the prediction's choice; the others are worth a trial
  std::string explanation;                  ///< the costs that led to the choice, as a table in text
};

/// Collective. Returns rank 0's choice on every rank. It compares the cost functions of all algorithms that can run here, with the
/// wire formats and the value types that `config` allows. Returns more than one candidate only if config.trial_iterations is not 0:
/// the cheapest of up to three algorithms, each predicted to take at most 1.5 times as long as the first.
[[nodiscard]] Choice choose_algorithm(CommunicatorState& comm, const AllreduceConfig& config);

}  // namespace weir::detail
