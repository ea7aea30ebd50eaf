#include "collectives/allreduce_packed_reduce_scatter.hpp"

namespace weir {

std::unique_ptr<CompressedExchange> make_packed_reduce_scatter(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec) {
  return std::make_unique<PackedReduceScatter<HostSpace<float>>>(spec, std::move(codec));
}

}  // namespace weir
