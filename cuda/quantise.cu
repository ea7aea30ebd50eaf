// Quantisers: a code of a few bits for each element, and numbers for each bucket. Compiled without fused multiplications and
// additions, so that messages are those of the host's codecs, bit for bit.
#include <bit>

#include "compress/cuda_kernels.hpp"
#include "compress/philox.hpp"
#include "launch.cuh"

namespace weir::compress::cuda {
namespace {

using namespace weir::kernels::cuda;

static_assert(code_chunk == threads_per_block && code_chunk == random_group);

constexpr std::int64_t piece = 4096;  // elements of a warp that searches for the largest
constexpr int resident = 6;           // blocks of a multiprocessor

__device__ __forceinline__ std::int64_t warp_number() { return thread_number() / 32; }

/// Has one warp per piece of a bucket. Headers are zero before.
__global__ void __launch_bounds__(threads_per_block)
    largest_kernel(QuantiserLayout layout, const float* values, std::int64_t count, std::int64_t size, unsigned* headers) {
  const std::int64_t begin = warp_number() * size;
  if (begin >= count) return;
  const std::int64_t end = begin + size < count ? begin + size : count;
  unsigned most = 0;
  for (std::int64_t i = begin + lane(); i < end; i += 32) {
    const unsigned key = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu;
    most = key > most ? key : most;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned other = __shfl_xor_sync(whole_warp, most, distance);
    most = other > most ? other : most;
  }
  if (lane() == 0) atomicMax(headers + begin / layout.bucket_of(count), most);
}

/// Has one warp per bucket, and one lane for each of the 32 partial sums of sum_of().
template <class Scheme>
__global__ void __launch_bounds__(threads_per_block)
    sums_kernel(Scheme scheme, QuantiserLayout layout, const float* values, std::int64_t count, float* headers) {
  const std::int64_t bucket = warp_number(), begin = bucket * layout.bucket_of(count);
  if (begin >= count) return;
  const std::int64_t size = begin + layout.bucket_of(count) < count ? layout.bucket_of(count) : count - begin;
  Sums sums;
  for (std::int64_t i = lane(); i < size; i += 32) {
    const float value = values[begin + i];
    const double wide = value;
    if constexpr (Scheme::measure == Measure::squares) {
      const std::uint32_t key = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
      sums.sum += wide * wide;
      sums.largest = key > sums.largest ? key : sums.largest;
    } else if constexpr (Scheme::measure == Measure::magnitudes) {
      sums.sum += wide < 0 ? -wide : wide;
    } else {
      sums.sum += wide < 0 ? 0.0 : wide;
      sums.negative += wide < 0 ? wide : 0.0;
      sums.negatives += wide < 0 ? 1 : 0;
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sums.sum += __shfl_xor_sync(whole_warp, sums.sum, distance);
    if constexpr (Scheme::measure == Measure::squares) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, sums.largest, distance);
      sums.largest = other > sums.largest ? other : sums.largest;
    } else if constexpr (Scheme::measure == Measure::sides) {
      sums.negative += __shfl_xor_sync(whole_warp, sums.negative, distance);
      sums.negatives += __shfl_xor_sync(whole_warp, sums.negatives, distance);
    }
  }
  if (lane() == 0) scheme.header(sums, size, headers + bucket * Scheme::headers);
}

/// Returns byte `number` of a chunk of `count` codes, a multiple of 8. Codes of more than 8 bits begin with their low bytes; the
/// rest is as pack_codes() writes it.
__device__ __forceinline__ unsigned packed_byte(const std::uint16_t* codes, int count, int bits, int number) {
  int shift = 0;
  if (bits > 8) {
    if (number < count) return codes[number] & 0xffu;
    number -= count;
    bits -= 8;
    shift = 8;
  }
  for (int width = 1;; width *= 2) {
    if ((bits & width) == 0) continue;
    const int bytes = count * width / 8;
    if (number >= bytes) {
      number -= bytes;
      shift += width;
      continue;
    }
    unsigned byte = 0;
    for (int part = 0; part < 8 / width; ++part)
      byte |= (static_cast<unsigned>(codes[number + part * bytes]) >> shift & ((1u << width) - 1)) << (part * width);
    return byte;
  }
}

/// Returns code `number` of such a chunk.
__device__ __forceinline__ int packed_code(const std::byte* in, int count, int bits, int number) {
  unsigned code = 0;
  int shift = 0;
  if (bits > 8) {
    code = static_cast<unsigned>(in[number]);
    in += count;
    bits -= 8;
    shift = 8;
  }
  for (int width = 1; width <= 8; width *= 2) {
    if ((bits & width) == 0) continue;
    const int bytes = count * width / 8;
    const auto byte = static_cast<unsigned>(in[number % bytes]);
    code |= (byte >> (number / bytes * width) & ((1u << width) - 1)) << shift;
    in += bytes;
    shift += width;
  }
  return static_cast<int>(code);
}

__device__ __forceinline__ int chunk_size(std::int64_t count, std::int64_t chunk) {
  const std::int64_t left = count - chunk * code_chunk;
  return static_cast<int>(left < code_chunk ? left : code_chunk);
}

/// Blocks take chunks in turns.
template <class Scheme>
__global__ void __launch_bounds__(threads_per_block)
    encode_kernel(Scheme scheme, QuantiserLayout layout, Draw draw, std::int64_t first, const float* values, std::int64_t count,
                  std::byte* out, float* rest) {
  __shared__ std::uint16_t codes[code_chunk];
  __shared__ std::uint32_t words[random_group / 4];
  const auto* const headers = reinterpret_cast<const float*>(out);
  std::byte* const packed = out + layout.header_bytes(count);
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::int64_t chunk = blockIdx.x; chunk * code_chunk < count; chunk += gridDim.x) {
    if constexpr (Scheme::random) {
      if (thread < 16) {
        const auto group = static_cast<std::uint64_t>(first / random_group + chunk);
        const auto block = philox(philox_counter(draw, group * 16 + static_cast<std::uint64_t>(thread)), draw.seed);
        for (int word = 0; word < 4; ++word) words[4 * thread + word] = block[static_cast<std::size_t>(word)];
      }
      __syncthreads();
    }
    const int size = chunk_size(count, chunk), padded = (size + 7) / 8 * 8;
    codes[thread] = 0;
    if (thread < size) {
      const std::int64_t i = chunk * code_chunk + thread;
      const float x = values[i];
      const auto scale = scheme.scale(headers + i / layout.bucket_of(count) * Scheme::headers);
      std::uint32_t random = 0;
      if constexpr (Scheme::random) {
        const std::uint32_t word = words[thread % 16 * 4 + thread % 64 / 16];
        random = std::rotr(word, thread / 64 * 8) & 0xffff;
      }
      const int code = scale.blank() ? scheme.encode(scale, 0.0f, 0) : scheme.encode(scale, x, random);
      codes[thread] = static_cast<std::uint16_t>(code);
      if (rest != nullptr) rest[i] = x - scheme.decode(scale, code);
    }
    __syncthreads();
    std::byte* const to = packed + code_bytes(chunk * code_chunk, layout.bits);
    for (int number = thread; number < padded * layout.bits / 8; number += threads_per_block)
      to[number] = static_cast<std::byte>(packed_byte(codes, padded, layout.bits, number));
    __syncthreads();
  }
}

template <class Scheme, bool add>
__global__ void __launch_bounds__(threads_per_block)
    decode_kernel(Scheme scheme, QuantiserLayout layout, const std::byte* in, std::int64_t count, float* sum) {
  const auto* const headers = reinterpret_cast<const float*>(in);
  const std::byte* const packed = in + layout.header_bytes(count);
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::int64_t chunk = blockIdx.x; chunk * code_chunk < count; chunk += gridDim.x) {
    const int size = chunk_size(count, chunk);
    if (thread >= size) return;
    const std::int64_t i = chunk * code_chunk + thread;
    const int code = packed_code(packed + code_bytes(chunk * code_chunk, layout.bits), (size + 7) / 8 * 8, layout.bits, thread);
    const float value = scheme.decode(scheme.scale(headers + i / layout.bucket_of(count) * Scheme::headers), code);
    sum[i] = add ? sum[i] + value : value;
  }
}

__global__ void __launch_bounds__(threads_per_block) vote_kernel(float* sum, std::int64_t count) {
  for_mine(count, [&](std::int64_t i) { sum[i] = sum[i] >= 0 ? 1.0f : -1.0f; });
}

}  // namespace

template <class Scheme>
void encode(Queue queue, Scheme scheme, QuantiserLayout layout, Draw draw, std::int64_t first, const float* values,
            std::int64_t count, std::byte* out, float* rest) {
  if (count == 0) return;
  clear(queue, out, layout.header_bytes(count));
  clear(queue, out + layout.bytes(count) - 8, 8);
  constexpr std::int64_t warps = threads_per_block / 32;
  if constexpr (Scheme::measure == Measure::largest) {
    const std::int64_t size = layout.bucket > 0 && layout.bucket < piece ? layout.bucket : piece;
    launch(queue, largest_kernel, tiles_of(divide_up(count, size), warps), layout, values, count, size,
           reinterpret_cast<unsigned*>(out));
  } else if constexpr (Scheme::measure != Measure::nothing) {
    launch(queue, sums_kernel<Scheme>, tiles_of(layout.buckets(count), warps), scheme, layout, values, count,
           reinterpret_cast<float*>(out));
  }
  launch(queue, encode_kernel<Scheme>, resident_blocks(queue, count, code_chunk, resident), scheme, layout, draw, first, values,
         count, out, rest);
}

template <class Scheme>
void decode(Queue queue, Scheme scheme, QuantiserLayout layout, const std::byte* in, std::int64_t count, float* sum, bool add) {
  if (count == 0) return;
  launch(queue, add ? decode_kernel<Scheme, true> : decode_kernel<Scheme, false>,
         resident_blocks(queue, count, code_chunk, resident), scheme, layout, in, count, sum);
}

void vote(Queue queue, float* sum, std::int64_t count) {
  launch(queue, vote_kernel, tiles_of(count, threads_per_block), sum, count);
}

#define WEIR_INSTANTIATE(Scheme)                                                                                            \
  template void encode(Queue, Scheme, QuantiserLayout, Draw, std::int64_t, const float*, std::int64_t, std::byte*, float*); \
  template void decode(Queue, Scheme, QuantiserLayout, const std::byte*, std::int64_t, float*, bool);
WEIR_INSTANTIATE(DeviceIntegers)
WEIR_INSTANTIATE(DeviceFloat8)
WEIR_INSTANTIATE(DeviceSigns)
WEIR_INSTANTIATE(DeviceScaledSigns)
using Levels = DeviceRandomLevels<Measure::squares, false>;
using ClippedLevels = DeviceRandomLevels<Measure::squares, true>;
using LargestLevels = DeviceRandomLevels<Measure::largest, true>;
WEIR_INSTANTIATE(Levels)
WEIR_INSTANTIATE(ClippedLevels)
WEIR_INSTANTIATE(LargestLevels)
WEIR_INSTANTIATE(DeviceSideMeans)
WEIR_INSTANTIATE(DeviceDynamicTree)
WEIR_INSTANTIATE(DeviceNatural)
#undef WEIR_INSTANTIATE

}  // namespace weir::compress::cuda
