// plan.hpp: what a weir_plan is.
#pragma once

#include <optional>

#include "shim.hpp"

struct weir_plan {
  weir_comm* comm;
  weir::AllreducePlan plan;
  std::optional<weir::Operation> operation{};  ///< the last one started
};
