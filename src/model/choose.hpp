// choose.hpp: chooses the cheapest algorithm, compressor and wire format by the cost functions. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "compress/compressor.hpp"
#include "model/cost.hpp"

namespace weir {

struct AllreduceRow;

/// What may be chosen.
struct Allowed {
  std::vector<std::string_view> algorithms{};  ///< names of the registry; empty: all that run in host memory
  /// native: values travel as they are. Any other value allows this narrow form as well, for float32.
  WireValues values = WireValues::native;
  /// Compressors, each with every algorithm that can carry it. Empty: top_k by sparse algorithms, and dense ones without
  /// compressor.
  std::vector<compress::Compressor> compressors{};
  std::string_view parameters{};  ///< algorithm_parameters: each algorithm takes its own
};

struct Candidate {
  std::string_view algorithm;
  bool sparse = false;
  WireFormat format = WireFormat::compact;  ///< of sparse algorithms
  WireValues values = WireValues::native;   ///< of sparse algorithms
  Cost cost;
  int compressor = -1;  ///< index into Allowed::compressors; -1: that is empty

  /// Returns the name of the compressor in `allowed`. Without one, returns "top_k" for a sparse algorithm, "none" for a dense one.
  [[nodiscard]] std::string_view compressor_name(const Allowed& allowed) const;
};

/// Returns why `algorithm`, although of the right kind, cannot carry what `compressor` makes; empty if it can.
[[nodiscard]] std::string_view why_not_by(const AllreduceRow& algorithm, const compress::Compressor& compressor);

/// Returns whether `algorithm` can carry what `compressor` makes; without a compressor, whether `algorithm` is dense.
[[nodiscard]] bool carries(const AllreduceRow& algorithm, const compress::Compressor& compressor);

/// Returns what `algorithm` costs if it carries what `compressor` makes of the problem's elements.
[[nodiscard]] Cost compressed_cost(const Machine& machine, const Problem& problem, const AllreduceRow& algorithm,
                                   const compress::Compressor& compressor);

/// Returns all candidates, cheapest first; the first is the choice. Candidates of equal cost are in the order of the registry,
/// compact before coo, native values before narrow ones. Ignores `problem`'s own format and values. Throws Error(WEIR_ERR_ARGUMENT)
/// for an unknown algorithm.
[[nodiscard]] std::vector<Candidate> choose(const Machine& machine, const Problem& problem, const Allowed& allowed = {});

}  // namespace weir
