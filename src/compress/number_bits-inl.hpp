// number_bits-inl.hpp: numbers of 0 to 32 bits in messages; compiled once per instruction set, as Highway's foreach_target.h asks.
//
// Numbers come in blocks of code_chunk, the last one shorter. A block has its numbers' low 8 bits as codes (code_bits.hpp), then
// the next 8, and so on. `count` numbers take code_bytes(count, bits). The last block is filled up with zeros to a multiple of 8
// numbers.
#if defined(WEIR_COMPRESS_NUMBER_BITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_NUMBER_BITS_INL
#undef WEIR_COMPRESS_NUMBER_BITS_INL
#else
#define WEIR_COMPRESS_NUMBER_BITS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "compress/code_bits-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

/// Packs only the lowest `bits` bits of each number. Returns the bytes.
template <class T>
HWY_INLINE std::int64_t pack_numbers(const T* HWY_RESTRICT numbers, std::int64_t count, int bits, std::byte* HWY_RESTRICT out) {
  std::byte* const begin = out;
  for (std::int64_t block = 0; block < count; block += code_chunk) {
    const std::int64_t size = std::min(code_chunk, count - block);
    const std::int64_t padded = (size + 7) / 8 * 8;
    for (int shift = 0; shift < bits; shift += 8) {
      std::uint8_t codes[code_chunk];
      for (std::int64_t i = 0; i < size; ++i) codes[i] = static_cast<std::uint8_t>(numbers[block + i] >> shift);
      std::fill(codes + size, codes + padded, std::uint8_t{0});
      const int width = std::min(8, bits - shift);
      out += size == code_chunk ? pack_chunk(codes, width, out) : pack_codes(codes, padded, width, out);
    }
  }
  return out - begin;
}

template <class T>
HWY_INLINE std::int64_t unpack_numbers(const std::byte* HWY_RESTRICT in, std::int64_t count, int bits, T* HWY_RESTRICT numbers) {
  const std::byte* const begin = in;
  for (std::int64_t block = 0; block < count; block += code_chunk) {
    const std::int64_t size = std::min(code_chunk, count - block);
    const std::int64_t padded = (size + 7) / 8 * 8;
    std::fill_n(numbers + block, size, T{0});
    for (int shift = 0; shift < bits; shift += 8) {
      std::uint8_t codes[code_chunk];
      const int width = std::min(8, bits - shift);
      in += size == code_chunk ? unpack_chunk(in, width, codes) : unpack_codes(in, padded, width, codes);
      for (std::int64_t i = 0; i < size; ++i)
        numbers[block + i] = static_cast<T>(numbers[block + i] | static_cast<T>(T{codes[i]} << shift));
    }
  }
  return in - begin;
}

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
