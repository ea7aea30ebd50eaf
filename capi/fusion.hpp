// fusion.hpp: what a weir_fused is.
#pragma once

#include <weir/fusion.hpp>

#include "shim.hpp"

struct weir_fused {
  weir_comm* comm;
  weir::FusedAllreduce fused;
  mutable std::string explanation{};  ///< that was asked for last
};
