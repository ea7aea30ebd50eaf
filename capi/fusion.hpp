// fusion.hpp: the struct behind a weir_fused.
#pragma once

#include <weir/fusion.hpp>

#include "shim.hpp"

struct weir_fused {
  weir_comm* comm;
  weir::FusedAllreduce fused;
  mutable std::string explanation{};  ///< the text returned last
};
