// cuda_kernels.hpp: what compressors do in CUDA memory, called as kernels/cuda_kernels.hpp is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/packed.hpp"
#include "compress/device_schemes.hpp"
#include "compress/strata.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::compress::cuda {

using kernels::cuda::Queue;

/// Entries of x at the places that stratum_places() draws; with `scales_up`, values times the size of their stratum.
template <class G, class T>
void pick(Queue queue, const G* x, Strata strata, Draw draw, bool scales_up, std::uint32_t* indices, T* values);

/// A message of a scheme of device_schemes.hpp, as PackedCodec::encode: layout.bytes(count) bytes at `out`, a multiple of 8.
template <class Scheme>
void encode(Queue queue, Scheme scheme, QuantiserLayout layout, Draw draw, std::int64_t first, const float* values,
            std::int64_t count, std::byte* out, float* rest);
/// As PackedCodec::decode, of a message as long as it has to be.
template <class Scheme>
void decode(Queue queue, Scheme scheme, QuantiserLayout layout, const std::byte* in, std::int64_t count, float* sum, bool add);
/// 1 where the sum is at least 0, else -1.
void vote(Queue queue, float* sum, std::int64_t count);

}  // namespace weir::compress::cuda
