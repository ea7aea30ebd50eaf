// setup.hpp: what fused tensors are made of.
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

/// What an object is made with, agreed on by all ranks.
struct FusionSetup {
  FusionConfig config;  ///< in force
  const SchemeRow* scheme = nullptr;
  const AllreduceRow* row = nullptr;
  Line line;  ///< in the order in which gradients are expected
  LinearCost cost;
  std::string explanation;
};

/// Collective. `first`: the lease of the first tags; it takes more where it needs them.
[[nodiscard]] std::shared_ptr<detail::FusedImpl> make_typed_fused(std::shared_ptr<detail::CommunicatorState> comm,
                                                                  FusionSetup setup, detail::Lease first,
                                                                  std::span<const FusedTensor> tensors);

}  // namespace weir::fusion
