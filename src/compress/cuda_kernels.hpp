// cuda_kernels.hpp: the kernels of compressors in CUDA memory. They are called as those in kernels/cuda_kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/packed.hpp"
#include "compress/device_schemes.hpp"
#include "compress/strata.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::compress::cuda {

using kernels::cuda::Queue;

/// Picks the entries of x at the places that stratum_places() draws. With `scales_up`, multiplies values by the size of their
/// stratum.
template <class G, class T>
void pick(Queue queue, const G* x, Strata strata, Draw draw, bool scales_up, std::uint32_t* indices, T* values);

/// Encodes a message of a scheme of device_schemes.hpp, as PackedCodec::encode does: layout.bytes(count) bytes at `out`, a multiple
/// of 8.
template <class Scheme>
void encode(Queue queue, Scheme scheme, QuantiserLayout layout, Draw draw, std::int64_t first, const float* values,
            std::int64_t count, std::byte* out, float* rest);
/// Decodes as PackedCodec::decode does. The message must have the right length.
template <class Scheme>
void decode(Queue queue, Scheme scheme, QuantiserLayout layout, const std::byte* in, std::int64_t count, float* sum, bool add);
/// Sets each element of the sum to 1 if it is at least 0, else to -1.
void vote(Queue queue, float* sum, std::int64_t count);

}  // namespace weir::compress::cuda
