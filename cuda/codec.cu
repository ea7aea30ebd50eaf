// Messages of sparse vectors. Bit vectors of indices are written word by word: each thread looks up the entries of its word. They
// are read by counting the bits before each word. Without atomics, the bytes are the same on every run.
#include "codec/layout.hpp"
#include "codec/parts.hpp"
#include "cuda/wire.hpp"
#include "launch.cuh"

namespace weir::wire::cuda {
namespace {

using namespace weir::kernels::cuda;

constexpr int words_per_thread = 4;
constexpr std::int64_t bits_per_block = std::int64_t{32} * words_per_thread * threads_per_block;
constexpr std::int64_t values_per_thread = 8, values_per_block = values_per_thread * threads_per_block;

template <class V>
__device__ __forceinline__ V load_bytes(const std::byte* in) {
  V value = 0;
#pragma unroll
  for (unsigned i = 0; i < sizeof(V); ++i) value = static_cast<V>(value | static_cast<V>(static_cast<V>(in[i]) << (8 * i)));
  return value;
}

template <class V>
__device__ __forceinline__ void store_bytes(std::byte* out, V value) {
#pragma unroll
  for (unsigned i = 0; i < sizeof(V); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

/// How values travel: as unsigned integers Word. A message aligns values to the size of Word.
template <class T, WireValues values>
struct Values {
  using Word = std::conditional_t<values != WireValues::native, std::uint16_t, Key<T>>;
  static constexpr Word absent = static_cast<Word>(~Word{0});
  /// `scale`: the factor that float16 values are multiplied by before they travel.
  static __device__ __forceinline__ Word pack(T value, float scale) {
    if constexpr (values == WireValues::native) {
      const auto bits = std::bit_cast<Word>(value);
      // All bits set mean "no entry". A value with these bits is replaced by the quiet NaN of its sign.
      return bits != absent ? bits : static_cast<Word>(absent << (sizeof(T) == 4 ? 22 : 51));
    } else {
      using Narrow = std::conditional_t<values == WireValues::float16, float16, bfloat16>;
      return narrow_to<Narrow, true>(values == WireValues::float16 ? scaled(value, scale) : value).bits;
    }
  }
  static __device__ __forceinline__ T unpack(Word word, float scale) {
    if constexpr (values == WireValues::native) {
      return std::bit_cast<T>(word);
    } else {
      using Narrow = std::conditional_t<values == WireValues::float16, float16, bfloat16>;
      return values == WireValues::float16 ? scaled(widen(Narrow{word}), scale) : widen(Narrow{word});
    }
  }
};

/// Packs values and whole or low parts of indices, one entry per thread. `low_bits` 32: coo.
template <class T, WireValues values>
__global__ void __launch_bounds__(threads_per_block)
    pack_kernel(const std::uint32_t* indices, const T* in, std::int64_t count, float scale, std::uint32_t base, int low_bits,
                std::byte* out, std::byte* low) {
  using V = Values<T, values>;
  const std::int64_t i = thread_number();
  if (i >= count) return;
  reinterpret_cast<typename V::Word*>(out)[i] = V::pack(in[i], scale);
  if (low_bits == 0) return;
  const std::uint32_t relative = indices[i] - base;
  if (low_bits == 32) store_bytes(low + 4 * i, relative);
  if (low_bits == 16) store_bytes(low + 2 * i, static_cast<std::uint16_t>(relative));
  if (low_bits == 8 || low_bits == 12) low[i] = static_cast<std::byte>(relative);
  if (low_bits % 8 == 4 && i % 2 == 0) {  // two per byte
    const int shift = low_bits - 4;
    const std::uint32_t next = i + 1 < count ? indices[i + 1] - base : 0;
    low[(low_bits == 12 ? count : 0) + i / 2] = static_cast<std::byte>(((relative >> shift) & 0xf) | ((next >> shift) & 0xf) << 4);
  }
}

/// The position of entry i's bit.
struct BitOf {
  const std::uint32_t* indices;
  std::uint32_t base;
  int low_bits;  // 0: bitmap
  __device__ __forceinline__ std::uint64_t operator()(std::int64_t i) const {
    const std::uint32_t relative = indices[i] - base;
    return low_bits == 0 ? relative : (relative >> low_bits) + static_cast<std::uint64_t>(i);
  }
};

/// Packs one 32-bit word of the bit vector per thread.
__global__ void __launch_bounds__(threads_per_block)
    pack_bits_kernel(BitOf bit_of, std::int64_t count, std::uint64_t bits, std::byte* out) {
  const std::uint64_t first = static_cast<std::uint64_t>(thread_number()) * 32;
  if (first >= bits) return;
  std::int64_t i = 0;
  for (std::int64_t end = count; i < end;) {
    const std::int64_t middle = i + (end - i) / 2;
    if (bit_of(middle) < first)
      i = middle + 1;
    else
      end = middle;
  }
  std::uint32_t word = 0;
  for (; i < count; ++i) {
    const std::uint64_t bit = bit_of(i);
    if (bit >= first + 32) break;
    word |= 1u << (bit - first);
  }
  const auto bytes = static_cast<int>((bits - first + 7) / 8 < 4 ? (bits - first + 7) / 8 : 4);
  for (int b = 0; b < bytes; ++b) out[first / 8 + static_cast<std::uint64_t>(b)] = static_cast<std::byte>(word >> (8 * b));
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block) fill_absent_kernel(Word* out, std::uint64_t range) {
  const auto i = static_cast<std::uint64_t>(thread_number());
  if (i < range) out[i] = static_cast<Word>(~Word{0});
}

template <class T, WireValues values>
__global__ void __launch_bounds__(threads_per_block)
    pack_dense_kernel(const std::uint32_t* indices, const T* in, std::int64_t count, float scale, std::uint32_t base,
                      std::byte* out) {
  using V = Values<T, values>;
  const std::int64_t i = thread_number();
  if (i < count) reinterpret_cast<typename V::Word*>(out)[indices[i] - base] = V::pack(in[i], scale);
}

/// Unpacks values, and for coo the indices.
template <class T, WireValues values>
__global__ void __launch_bounds__(threads_per_block)
    unpack_kernel(const std::byte* in, std::int64_t count, float scale, std::uint32_t base, const std::byte* coo,
                  std::uint32_t* indices, T* out) {
  using V = Values<T, values>;
  const std::int64_t i = thread_number();
  if (i >= count) return;
  out[i] = V::unpack(reinterpret_cast<const typename V::Word*>(in)[i], scale);
  if (coo != nullptr) indices[i] = base + load_bytes<std::uint32_t>(coo + 4 * i);
}

__device__ __forceinline__ std::uint32_t low_part(const std::byte* low, int low_bits, std::int64_t count, std::int64_t i) {
  const auto nibble = [&](const std::byte* from) { return (static_cast<std::uint32_t>(from[i / 2]) >> (i % 2 * 4)) & 0xf; };
  switch (low_bits) {
    case 4:
      return nibble(low);
    case 8:
      return static_cast<std::uint32_t>(low[i]);
    case 12:
      return static_cast<std::uint32_t>(low[i]) | nibble(low + count) << 8;
    default:
      return load_bytes<std::uint16_t>(low + 2 * i);
  }
}

struct BitVector {
  const std::byte *low, *in;
  std::uint64_t bits;
  int low_bits;
  std::int64_t count;
  std::uint32_t base;
  TileStates states;
  unsigned* malformed;
};

/// Unpacks consecutive words per thread. The number of an entry is the number of set bits before its own.
__global__ void __launch_bounds__(threads_per_block) unpack_bits_kernel(BitVector v, std::uint32_t* indices) {
  const std::uint64_t first = static_cast<std::uint64_t>(thread_number()) * (32 * words_per_thread);
  std::uint32_t words[words_per_thread];
  std::uint64_t set = 0;
#pragma unroll
  for (int w = 0; w < words_per_thread; ++w) {
    const std::uint64_t begin = first + 32 * static_cast<std::uint64_t>(w);
    words[w] = 0;
    for (int b = 0; b < 4; ++b) {
      if (begin + 8 * static_cast<std::uint64_t>(b) < v.bits)
        words[w] |= static_cast<std::uint32_t>(v.in[begin / 8 + static_cast<std::uint64_t>(b)]) << (8 * b);
    }
    set += static_cast<std::uint64_t>(__popc(words[w]));
    if (begin < v.bits && v.bits - begin < 32 && words[w] >> (v.bits - begin) != 0) atomicOr(v.malformed, 1u);
  }
  std::uint64_t total;
  std::uint64_t number = scan_block(set, total);
  const std::uint64_t before = v.states.before_in_block(total);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0 && before + total != static_cast<std::uint64_t>(v.count))
    atomicOr(v.malformed, 1u);
  number += before;
#pragma unroll
  for (int w = 0; w < words_per_thread; ++w) {
    for (std::uint32_t left = words[w]; left != 0; left &= left - 1, ++number) {
      if (number >= static_cast<std::uint64_t>(v.count)) break;
      const std::uint64_t bit =
          first + 32 * static_cast<std::uint64_t>(w) + static_cast<std::uint64_t>(__ffs(static_cast<int>(left)) - 1);
      const auto i = static_cast<std::int64_t>(number);
      const std::uint32_t relative =
          v.low_bits == 0 ? static_cast<std::uint32_t>(bit)
                          : static_cast<std::uint32_t>((bit - number) << v.low_bits) | low_part(v.low, v.low_bits, v.count, i);
      indices[i] = v.base + relative;
    }
  }
}

template <class T, WireValues values>
__global__ void __launch_bounds__(threads_per_block)
    unpack_dense_kernel(const std::byte* in, std::uint64_t range, std::int64_t count, float scale, std::uint32_t base,
                        TileStates states, unsigned* malformed, std::uint32_t* indices, T* out) {
  using V = Values<T, values>;
  using Word = typename V::Word;
  const std::uint64_t first = static_cast<std::uint64_t>(thread_number()) * values_per_thread;
  Word words[values_per_thread];
  std::uint64_t set = 0;
#pragma unroll
  for (int i = 0; i < values_per_thread; ++i) {
    words[i] = first + static_cast<std::uint64_t>(i) < range
                   ? reinterpret_cast<const Word*>(in)[first + static_cast<std::uint64_t>(i)]
                   : Word{V::absent};
    set += words[i] != V::absent;
  }
  std::uint64_t total;
  std::uint64_t number = scan_block(set, total);
  const std::uint64_t before = states.before_in_block(total);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0 && before + total != static_cast<std::uint64_t>(count))
    atomicOr(malformed, 1u);
  number += before;
#pragma unroll
  for (int i = 0; i < values_per_thread; ++i) {
    if (words[i] == V::absent) continue;
    if (number < static_cast<std::uint64_t>(count)) {
      indices[number] = base + static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i);
      out[number] = V::unpack(words[i], scale);
    }
    ++number;
  }
}

/// Lies in scratch, before the tile states.
struct Verdict {
  unsigned malformed, arrivals;
};

/// Checks that what was decoded is strictly ascending and in its range. The last block writes the verdict, earlier errors included.
__global__ void __launch_bounds__(threads_per_block)
    check_kernel(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t range, Verdict* verdict,
                 std::int64_t* malformed) {
  const std::int64_t i = thread_number();
  if (i < count) {
    // Indices ascend, so the first and the last bound all, even if additions of `base` have wrapped around.
    const std::uint32_t index = indices[i];
    const bool wrong =
        (i > 0 && indices[i - 1] >= index) || (i == 0 && index < base) || (i == count - 1 && index - std::uint64_t{base} >= range);
    if (wrong) atomicOr(&verdict->malformed, 1u);
  }
  if (!is_last_block(&verdict->arrivals) || threadIdx.x != 0) return;
  *malformed = atomicOr(&verdict->malformed, 0u);
}

/// Calls f with the type that describes how values travel.
template <class T, class F>
void with_values(WireValues values, F f) {
  if constexpr (sizeof(T) == 4) {
    if (values == WireValues::bfloat16)
      return f(Values<T, WireValues::bfloat16>{}, std::integral_constant<WireValues, WireValues::bfloat16>{});
    if (values == WireValues::float16)
      return f(Values<T, WireValues::float16>{}, std::integral_constant<WireValues, WireValues::float16>{});
  }
  f(Values<T, WireValues::native>{}, std::integral_constant<WireValues, WireValues::native>{});
}

template <class T>
Layout layout_for(Wire wire, std::int64_t count, std::uint64_t range) {
  return layout_of(wire.format, bytes_of_value<T>(wire.values), count, range);
}

std::int64_t tiles_of_bits(std::uint64_t bits) { return tiles_of(static_cast<std::int64_t>(bits), bits_per_block); }

}  // namespace

template <class T>
std::int64_t encode(Queue queue, Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                    std::uint64_t range, std::byte* out) {
  const Layout layout = layout_for<T>(wire, count, range);
  if (layout.form == Form::empty) return 0;
  const std::int64_t blocks = divide_up(count, threads_per_block);
  const float scale = std::ldexp(1.0f, -wire.halvings);
  with_values<T>(wire.values, [&](auto kind, auto constant) {
    using Word = typename decltype(kind)::Word;
    constexpr WireValues v = decltype(constant)::value;
    if (layout.form == Form::dense) {
      launch(queue, fill_absent_kernel<Word>, divide_up(static_cast<std::int64_t>(range), threads_per_block),
             reinterpret_cast<Word*>(out), range);
      launch(queue, pack_dense_kernel<T, v>, blocks, indices, values, count, scale, base, out);
    } else {
      const int low_bits = layout.form == Form::coo ? 32 : layout.low_bits;
      launch(queue, pack_kernel<T, v>, blocks, indices, values, count, scale, base, low_bits, out, out + layout.value_bytes);
    }
  });
  if (layout.bits > 0) {
    launch(queue, pack_bits_kernel, divide_up(static_cast<std::int64_t>(layout.bits), 32 * threads_per_block),
           BitOf{indices, base, layout.low_bits}, count, layout.bits, out + layout.value_bytes + layout.low_bytes);
  }
  return layout.bytes();
}

template <class T>
void decode(Queue queue, Wire wire, const std::byte* in, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values, std::int64_t* malformed) {
  const Layout layout = layout_for<T>(wire, count, range);
  const std::int64_t tiles =
      layout.form == Form::dense ? tiles_of(static_cast<std::int64_t>(range), values_per_block) : tiles_of_bits(layout.bits);
  auto* const verdict = reinterpret_cast<Verdict*>(queue.scratch);
  const TileStates states{reinterpret_cast<unsigned long long*>(queue.scratch + sizeof(Verdict))};
  clear(queue, queue.scratch, static_cast<std::int64_t>(sizeof(Verdict)) + tiles * 8);
  const std::int64_t blocks = tiles_of(count, threads_per_block);
  const float scale = std::ldexp(1.0f, wire.halvings);
  with_values<T>(wire.values, [&](auto, auto constant) {
    constexpr WireValues v = decltype(constant)::value;
    if (layout.form == Form::dense) {
      launch(queue, unpack_dense_kernel<T, v>, tiles, in, range, count, scale, base, states, &verdict->malformed, indices, values);
    } else {
      launch(queue, unpack_kernel<T, v>, blocks, in, count, scale, base,
             layout.form == Form::coo ? in + layout.value_bytes : nullptr, indices, values);
    }
  });
  if (layout.bits > 0) {
    const std::byte* const low = in + layout.value_bytes;
    launch(queue, unpack_bits_kernel, tiles,
           BitVector{low, low + layout.low_bytes, layout.bits, layout.low_bits, count, base, states, &verdict->malformed}, indices);
  }
  launch(queue, check_kernel, blocks, indices, count, base, range, verdict, malformed);
}

template <class T>
std::int64_t decode_scratch(std::int64_t count) {
  // A bit vector or a dense array is never longer than coo's indices or entries would be.
  const auto most_bits = static_cast<std::uint64_t>(count) * 32;
  return static_cast<std::int64_t>(sizeof(Verdict)) +
         8 * std::max(tiles_of_bits(most_bits), tiles_of(count * static_cast<std::int64_t>(sizeof(T) + 4) / 2, values_per_block));
}

#define WEIR_INSTANTIATE(T)                                                                                             \
  template std::int64_t encode(Queue, Wire, const std::uint32_t*, const T*, std::int64_t, std::uint32_t, std::uint64_t, \
                               std::byte*);                                                                             \
  template void decode(Queue, Wire, const std::byte*, std::int64_t, std::uint32_t, std::uint64_t, std::uint32_t*, T*,   \
                       std::int64_t*);                                                                                  \
  template std::int64_t decode_scratch<T>(std::int64_t);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::wire::cuda
