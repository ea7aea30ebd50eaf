// plan.hpp: the struct behind a weir_plan.
#pragma once

#include <optional>

#include "shim.hpp"

struct weir_plan {
  weir_comm* comm;
  weir::AllreducePlan plan;
  std::optional<weir::Operation> operation{};  ///< the run started last
};
