// schemes.hpp: how schemes of papers divide a line of tensors.
#pragma once

#include <cstdint>

#include "fusion/division.hpp"

namespace weir::fusion {

/// OMGS-SGD (Shi et al. 2020), with the merge rule of MG-WFBP: the next tensor joins where it is ready before the startup of the
/// stretch that waits for it would be over.
[[nodiscard]] Ends merged(const Line& line, const LinearCost& cost);
/// SAFusion-Intra: exchanges take as long as the next stretch takes to come. What comes while the network is busy joins, and as
/// long as the exchange would end before the next tensor comes, that joins, too; up to `most` bytes.
[[nodiscard]] Ends balanced(const Line& line, const LinearCost& cost, std::int64_t most);

}  // namespace weir::fusion
