#include "cuda/ranges.hpp"

namespace weir::cuda {

std::uint64_t begin_range(const char* /*name*/) noexcept { return 0; }
void end_range(std::uint64_t /*range*/) noexcept {}

}  // namespace weir::cuda
