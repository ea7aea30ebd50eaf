// setup.hpp: the parameters from which fused tensors are made.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <weir/fusion.hpp>

#include "collectives/allreduce.hpp"
#include "communicator/leases.hpp"
#include "fusion/fused.hpp"
#include "fusion/scheme.hpp"

namespace weir::fusion {

/// Holds what an object is made from, agreed on by all ranks.
struct FusionSetup {
  FusionConfig config;  ///< in force
  const SchemeRow* scheme = nullptr;
  const AllreduceRow* row = nullptr;
  Line line;  ///< in the order in which gradients are expected
  LinearCost cost;
  std::string explanation;
};

/// Collective. `first` is the lease of the first tags. Takes more leases if it needs them.
[[nodiscard]] std::shared_ptr<detail::FusedImpl> make_typed_fused(std::shared_ptr<detail::CommunicatorState> comm,
                                                                  FusionSetup setup, detail::Lease first,
                                                                  std::span<const FusedTensor> tensors);

}  // namespace weir::fusion
