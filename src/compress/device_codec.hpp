// device_codec.hpp: codecs for vectors and messages in CUDA memory.
#pragma once

#include <memory>

#include "codec/packed.hpp"
#include "compress/compressor.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::compress {

/// Whether there is one; without it, codecs of host memory do.
[[nodiscard]] bool has_device_codec(const Compressor& compressor);
/// Returns one that makes the same messages as compressor.row->codec, all of them of fixed size. Its calls put work onto the
/// queue's stream and return. Returns nullptr if the compressor has no device codec.
[[nodiscard]] std::unique_ptr<PackedCodec> make_device_codec(const Compressor& compressor, kernels::cuda::Queue queue);

}  // namespace weir::compress
