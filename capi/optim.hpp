// optim.hpp: the structs behind a weir_operator and a weir_layer_optimizer.
#pragma once

#include <weir/optim.h>

#include <optional>
#include <weir/optim.hpp>

#include "shim.hpp"

struct weir_operator {
  weir_comm* comm;
  weir::ParallelOperator work;
  std::optional<weir::Operation> operation{};  ///< the run started last
  mutable std::string explanation{};           ///< the text returned last
};

struct weir_layer_optimizer {
  weir_comm* comm;
  weir::LayerOptimizer optimizer;
  mutable std::string explanation{};  ///< the text returned last
};
