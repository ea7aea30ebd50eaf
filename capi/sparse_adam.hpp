// sparse_adam.hpp: the struct behind a weir_sparse_adam.
#pragma once

#include <weir/sparse_adam.h>

#include <weir/sparse_adam.hpp>

#include "shim.hpp"

struct weir_sparse_adam {
  weir::SparseAdam adam;
};
