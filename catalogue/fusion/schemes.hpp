// schemes.hpp: divisions of a line of tensors by schemes of papers.
#pragma once

#include <cstdint>

#include "fusion/division.hpp"

namespace weir::fusion {

/// OMGS-SGD (Shi et al. 2020), with the merge rule of MG-WFBP: the next tensor joins if it is ready before the startup of the
/// waiting stretch would be over.
[[nodiscard]] Ends merged(const Line& line, const LinearCost& cost);
/// SAFusion-Intra: exchanges take as long as the next stretch takes to come. A tensor that comes while the network is busy joins. A
/// tensor also joins if the exchange would end before it comes. A stretch has up to `most` bytes.
[[nodiscard]] Ends balanced(const Line& line, const LinearCost& cost, std::int64_t most);

}  // namespace weir::fusion
