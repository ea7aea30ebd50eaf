#include "collectives/packed_cuda.hpp"

#include "collectives/allreduce_packed_allgather.hpp"
#include "collectives/allreduce_packed_reduce_scatter.hpp"
#include "collectives/device_space.hpp"

namespace weir {

std::unique_ptr<CompressedExchange> make_packed_cuda(const AllreduceRow& row, const ExchangeSpec& spec,
                                                     std::unique_ptr<PackedCodec> codec) {
  using Space = DeviceSpace<float>;
  if (row.make_packed == make_packed_allgather) return std::make_unique<PackedAllgather<Space>>(spec, std::move(codec));
  return std::make_unique<PackedReduceScatter<Space>>(spec, std::move(codec));
}

}  // namespace weir
