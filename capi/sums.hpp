// sums.hpp: the struct behind a weir_sparse_sum.
#pragma once

#include <weir/sums.h>

#include <optional>
#include <weir/sums.hpp>

#include "shim.hpp"

struct weir_sparse_sum {
  weir_comm* comm;
  weir::SparseSum sum;
  std::optional<weir::Operation> operation{};  ///< the run started last
};
