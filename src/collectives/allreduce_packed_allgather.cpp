#include "collectives/allreduce_packed_allgather.hpp"

namespace weir {

std::unique_ptr<CompressedExchange> make_packed_allgather(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec) {
  return std::make_unique<PackedAllgather<HostSpace<float>>>(spec, std::move(codec));
}

}  // namespace weir
