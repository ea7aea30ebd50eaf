// device_codec.hpp: codecs for vectors and messages in CUDA memory.
#pragma once

#include <memory>

#include "codec/packed.hpp"
#include "compress/compressor.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::compress {

/// Returns true if the compressor has a codec for CUDA memory. Without it, the codec of host memory is used.
[[nodiscard]] bool has_device_codec(const Compressor& compressor);
/// Returns a codec whose messages equal those of compressor.row->codec. All of them have a fixed size. Its calls queue work on the
/// queue's stream and return. Returns nullptr if the compressor has no device codec.
[[nodiscard]] std::unique_ptr<PackedCodec> make_device_codec(const Compressor& compressor, kernels::cuda::Queue queue);

}  // namespace weir::compress
