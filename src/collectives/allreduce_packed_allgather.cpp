#include "collectives/allreduce_packed_allgather.hpp"

namespace weir {

std::unique_ptr<CompressedExchange> make_packed_allgather(const AllreduceProblem& problem, std::unique_ptr<PackedCodec> codec) {
  return std::make_unique<PackedAllgather<HostSpace<float>>>(problem, std::move(codec));
}

}  // namespace weir
