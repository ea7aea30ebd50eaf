// choose.hpp: the cheapest algorithm and wire format by the cost functions. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "model/cost.hpp"

namespace weir {

/// What may be chosen.
struct Allowed {
  std::vector<std::string_view> algorithms{};  ///< names of the registry; empty: all that run in host memory
  /// native: values travel as they are. Others allow this narrow form besides, for float32.
  WireValues values = WireValues::native;
};

struct Candidate {
  std::string_view algorithm;
  bool sparse = false;
  WireFormat format = WireFormat::compact;  ///< of dense ones without meaning, as are the values
  WireValues values = WireValues::native;
  Cost cost;
};

/// All candidates, cheapest first; equally cheap ones in the order of the registry, compact before coo, native values before narrow
/// ones. The first is the choice. `problem`'s own format and values are ignored. Throws Error(WEIR_ERR_ARGUMENT) for an unknown
/// algorithm.
[[nodiscard]] std::vector<Candidate> choose(const Machine& machine, const Problem& problem, const Allowed& allowed = {});

}  // namespace weir
