// packed_cuda.hpp: the packed algorithms for plans in CUDA memory.
#pragma once

#include "codec/packed.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/compressed_exchange.hpp"

namespace weir {

/// What row.make_packed makes, for vectors in CUDA memory, with a codec for messages of fixed size there; spec.stream is set.
[[nodiscard]] std::unique_ptr<CompressedExchange> make_packed_cuda(const AllreduceRow& row, const ExchangeSpec& spec,
                                                                   std::unique_ptr<PackedCodec> codec);

}  // namespace weir
