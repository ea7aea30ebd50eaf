// wire.hpp: writes messages of codec/wire.hpp from CUDA memory and reads them into it; the same bytes. Called as the kernels in
// kernels/cuda_kernels.hpp: pointers are to device memory; work goes onto the queue without waiting.
#pragma once

#include "codec/wire.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::wire::cuda {

using kernels::cuda::Queue;

/// Does what wire::encode does. `out`, at a multiple of 8, holds message_bytes, which it returns. Uses no scratch.
template <class T>
std::int64_t encode(Queue queue, Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                    std::uint64_t range, std::byte* out);

/// Does what wire::decode does with message_bytes at a multiple of 8. *malformed, in device or pinned memory, becomes 0, or 1 if
/// wire::decode would throw; the outputs are then undefined. Until that is known they may be merged and counted, but not scattered.
/// Scratch: decode_scratch().
template <class T>
void decode(Queue queue, Wire wire, const std::byte* in, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values, std::int64_t* malformed);

/// Do what the functions of codec/wire.hpp do, for 16-bit values.
void round_values(Queue queue, Wire wire, const float* in, float* out, std::int64_t count);
void subtract_rounded(Queue queue, Wire wire, float* values, std::int64_t count);
/// For each of the sorted entries whose index is among the sorted `taken`: dense[index] += what subtract_rounded makes of its
/// value.
void return_rounded(Queue queue, Wire wire, float* dense, const std::uint32_t* indices, const float* values, std::int64_t count,
                    const std::uint32_t* taken, std::int64_t taken_count);

/// Returns the scratch bytes for messages of up to `count` entries, for any range.
template <class T>
[[nodiscard]] std::int64_t decode_scratch(std::int64_t count);

}  // namespace weir::wire::cuda
