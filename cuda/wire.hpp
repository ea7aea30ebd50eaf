// wire.hpp: messages of codec/wire.hpp written from and read into CUDA memory; the same bytes. Called as the kernels in
// kernels/cuda_kernels.hpp: pointers are to device memory, work goes onto the queue, no one waits.
#pragma once

#include "codec/wire.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::wire::cuda {

using kernels::cuda::Queue;

/// As wire::encode; `out`, at a multiple of 8, holds message_bytes, which it returns. Scratch: none.
template <class T>
std::int64_t encode(Queue queue, Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                    std::uint64_t range, std::byte* out);

/// As wire::decode of message_bytes at a multiple of 8; *malformed, in device or pinned memory, becomes 0, or 1 where wire::decode
/// would throw, the outputs then undefined: until that is known they may be merged and counted, and must not be scattered. Scratch:
/// decode_scratch().
template <class T>
void decode(Queue queue, Wire wire, const std::byte* in, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values, std::int64_t* malformed);

/// As the functions of codec/wire.hpp, for 16-bit values.
void round_values(Queue queue, Wire wire, const float* in, float* out, std::int64_t count);
void subtract_rounded(Queue queue, Wire wire, float* values, std::int64_t count);
/// For each of the sorted entries whose index is among the sorted `taken`: dense[index] += what subtract_rounded makes of its
/// value.
void return_rounded(Queue queue, Wire wire, float* dense, const std::uint32_t* indices, const float* values, std::int64_t count,
                    const std::uint32_t* taken, std::int64_t taken_count);

/// Scratch bytes for messages of up to `count` entries, whatever the range.
template <class T>
[[nodiscard]] std::int64_t decode_scratch(std::int64_t count);

}  // namespace weir::wire::cuda
