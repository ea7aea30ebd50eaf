// sparse_adam.hpp: what a weir_sparse_adam is.
#pragma once

#include <weir/sparse_adam.h>

#include <weir/sparse_adam.hpp>

#include "shim.hpp"

struct weir_sparse_adam {
  weir::SparseAdam adam;
};
